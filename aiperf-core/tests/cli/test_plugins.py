import json

from click.testing import CliRunner

from aiperf_core import __version__
from aiperf_core.cli.main import Shell
from aiperf_core.contributions import CONTRIBUTIONS

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
    ours = ", ".join(f"{name} {count}" for name, count in plugins.loaded[0].contributes.items() if count)
    assert f"commands {len(plugins.commands)}, issues {len(plugins.issues)}" in ours
    assert result.stdout == (
        "plugin       version  entry point  contributes\n"
        f"aiperf-core  {__version__:<7}  builtin      {ours}\n"
        "aiperf-acme  0.3      acme         targets 1\n"
        "note on plugin aiperf-acme 0.3: printed while it was loaded: 'hello'\n"
        "skipped plugin aiperf-bolt 0.3: 'aiperf_targets' returned int; expected an iterable of Target\n"
        "\n"
        "device  summary                         plugin\n"
        "cuda    NVIDIA GPUs                     aiperf-core\n"
        "cpu     The processors of this machine  aiperf-core\n"
        "\n"
        "executor  summary                            plugin\n"
        "here      Processes forked on this machine   aiperf-core\n"
        "torchrun  Ranks of torch's elastic launcher  aiperf-core\n"
        "\n"
        "format            summary                                                                     plugin\n"
        "aiperf            class Implementation with run(self, ...); --target is a target              aiperf-core\n"
        "kernelbench       class ModelNew; --target is a file with Model, get_inputs, get_init_inputs  aiperf-core\n"
        "flashinfer-trace  a solution in JSON; --target is a definition in JSON                        aiperf-core\n"
    )


def test_json(site):
    site.install("aiperf-acme", PLUGIN)
    site.install("aiperf-bolt", "def aiperf_targets(): return []")
    found = json.loads(CliRunner().invoke(Shell(site.load()), ["plugins", "--json"]).stdout)
    assert 0 <= found["loaded"][1].pop("seconds") < 60
    assert found["loaded"][1] == {
        "distribution": "aiperf-acme",
        "version": "0.3",
        "entry_point": "acme",
        "contributes": {one.name: int(one.name == "targets") for one in CONTRIBUTIONS},
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
