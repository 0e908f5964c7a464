import json

from click.testing import CliRunner

from aiperf_core import __version__
from aiperf_core.cli.main import Shell

PLUGIN = """
print("hello")

@hookimpl
def aiperf_targets():
    yield Target("gather", "Sort before you gather", "speed", "cpu")
"""


def test_the_loaded_and_the_skipped(site):
    site.install("aiperf-acme", PLUGIN)
    site.install("aiperf-bolt", "@hookimpl\ndef aiperf_targets(): return 7")
    plugins = site.load()
    result = CliRunner().invoke(Shell(plugins), ["plugins"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "PLUGIN       VERSION  ENTRY POINT  TARGETS  COMMANDS  ISSUES  ATTACKS\n"
        f"aiperf-core  {__version__:<7}  builtin            0  {len(plugins.commands):>8}  {len(plugins.issues):>6}  {len(plugins.attacks):>7}\n"
        "aiperf-acme  0.3      acme               1         0       0        0\n"
        "note on plugin aiperf-acme 0.3: printed while it was loaded: 'hello'\n"
        "skipped plugin aiperf-bolt 0.3: 'aiperf_targets' returned int; expected an iterable of Target\n"
    )


def test_json(site):
    site.install("aiperf-acme", PLUGIN)
    site.install("aiperf-bolt", "def aiperf_targets(): return []")
    found = json.loads(CliRunner().invoke(Shell(site.load()), ["plugins", "--json"]).stdout)
    assert found["loaded"][1] == {
        "distribution": "aiperf-acme",
        "version": "0.3",
        "entry_point": "acme",
        "targets": 1,
        "commands": 0,
        "issues": 0,
        "checks": 0,
        "attacks": 0,
        "hooks": ["aiperf_targets"],
        "notes": ["printed while it was loaded: 'hello'"],
    }
    assert found["set_aside"] == [
        {
            "distribution": "aiperf-bolt",
            "version": "0.3",
            "entry_point": "bolt",
            "reason": "'aiperf_targets' lacks @hookimpl",
        }
    ]
