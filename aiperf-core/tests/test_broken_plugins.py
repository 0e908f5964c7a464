"""Plugins that are broken in every way that we could think of, installed all at once, under the real command."""

import json
import os
import re
import subprocess
import sys

import pytest

from aiperf_core import __version__, trial
from aiperf_core.observers import HOOKS
from aiperf_core.plugins import load_plugins

pytestmark = pytest.mark.quiet

TARGETS = "@hookimpl\ndef aiperf_targets():\n    "
GOOD = TARGETS + "yield Target('gather', 'Sort before you gather', 'speed', 'cpu')\n"
KNOWN = ", ".join(f"'{hook}'" for hook in HOOKS)

# How each is broken, and what is said of it.
ASIDE = {
    "raises": ("import no_such_module", "its import raised ModuleNotFoundError: No module named 'no_such_module'"),
    "hook": (TARGETS + "raise OSError('disk on fire')", "'aiperf_targets' raised OSError: disk on fire"),
    "misspelt": ("@hookimpl\ndef aiperf_target(): return []", f"unknown hook 'aiperf_target'; known: {KNOWN}"),
    "types": (TARGETS + "return [1]", "'aiperf_targets' returned int 1; expected an iterable of Target"),
    "name": (
        "@hookimpl\ndef aiperf_commands(): yield Command('list', 'Mine', 'a:b')",
        f"command 'list' is already provided by aiperf-core {__version__}",
    ),
    "newer": (
        "raise AssertionError('imported')",
        f"it needs aiperf-core[cuda]~=99.0.0, and this is aiperf-core {__version__}. Update both.",
    ),
    "exits": ("import sys\nsys.exit('goodbye')", "its import raised SystemExit: goodbye"),
    "ends": ("import os\nos._exit(7)", "its import raised SystemExit: os._exit(7)"),
}
NOTED = {
    "prints": (
        "import sys\nprint('x' * 100_000)\nprint('y' * 100_000, file=sys.stderr)\n" + GOOD,
        [r"printed 200,001 characters while it was loaded: 'x{60}'"],
    ),
    "slow": (
        "import time\ntime.sleep(2)\n" + GOOD,
        [r"takes [2-9]\.\d s to load, which slows every command; 0\.2 s is the limit"],
    ),
    "torch": (
        "import torch\n" + GOOD,
        [
            "imports torch, which slows every command",
            r"takes \d+\.\d s to load, which slows every command; 0\.2 s is the limit",
        ],
    ),
}
REQUIRES = {"newer": "aiperf-core[cuda]~=99.0.0", "slow": f"aiperf-core~={__version__}"}
COMMANDS = {
    "plugins": ["plugins"],
    "plugins --json": ["plugins", "--json"],
    "doctor": ["doctor"],
    "doctor --json": ["doctor", "--json"],
    "list --json": ["list", "--json"],
    "run": [
        "run",
        "practice.sum_rows",
        "--size",
        "smoke",
        "--device",
        "cpu",
        "--budget",
        "0.2",
        "--quiet",
        "--out",
        "bundle",
    ],
}


# Real torch takes seconds of both processors, so all but the run import this one.
TORCH = """
import time
from types import SimpleNamespace
time.sleep(0.3)
__version__, version, cuda = "2.0", SimpleNamespace(cuda=None), SimpleNamespace(device_count=lambda: 0)
"""


@pytest.fixture(scope="module")
def told(make_site, tmp_path_factory):
    """What each command says with all of them installed: exit code, stdout and stderr."""
    folder, here, light = (tmp_path_factory.mktemp(name) for name in ("broken", "here", "light"))
    for name, (source, _) in {**ASIDE, **NOTED}.items():
        make_site(folder).install(f"aiperf-{name}", source, requires=REQUIRES.get(name))
    (light / "torch.py").write_text(TORCH)
    everything = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]

    def start(name, path):
        return subprocess.Popen(
            [sys.executable, "-m", "aiperf_core", *COMMANDS[name]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=here,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )

    # All at once, since most of their time is spent asleep in a plugin; but for the one that measures.
    started = {name: start(name, [str(light), *everything]) for name in COMMANDS if name != "run"}
    ended = {name: process.communicate(timeout=120) for name, process in started.items()}
    started["run"] = start("run", everything)
    ended["run"] = started["run"].communicate(timeout=120)
    return {name: (started[name].returncode, *streams) for name, streams in ended.items()}


def is_noted(notes, patterns):
    """Whether the notes are as expected. On a busy machine any plugin may be slow."""
    return all(any(re.fullmatch(pattern, note) for note in notes) for pattern in patterns)


def test_each_is_set_aside_or_noted_in_the_table(told):
    code, out, err = told["plugins"]
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for name, (_, reason) in ASIDE.items():
        assert f"skipped plugin aiperf-{name} 0.3: {reason}" in lines
    for name, (_, patterns) in NOTED.items():
        prefix = f"note on plugin aiperf-{name} 0.3: "
        assert is_noted([one.removeprefix(prefix) for one in lines if one.startswith(prefix)], patterns), name


def test_each_is_set_aside_or_noted_in_json(told):
    code, out, err = told["plugins --json"]
    assert (code, err) == (0, "")
    found = json.loads(out)
    reasons = {one["distribution"]: one["reason"] for one in found["set_aside"]}
    assert reasons == {f"aiperf-{name}": reason for name, (_, reason) in ASIDE.items()}
    loaded = {one["distribution"]: one for one in found["loaded"]}
    for name, (_, patterns) in NOTED.items():
        assert is_noted(loaded[f"aiperf-{name}"]["notes"], patterns), name
    assert loaded["aiperf-slow"]["seconds"] > 2
    assert loaded["aiperf-core"]["seconds"] < 2


def test_the_doctor_names_each_with_a_remedy(told):
    code, out, err = told["doctor --json"]
    assert (code, err) == (0, "")
    facts = [one for one in json.loads(out)["facts"] if one["name"].startswith("plugin ")]
    found = {
        name: [one["found"] for one in facts if one["name"] == f"plugin aiperf-{name}"] for name in (*ASIDE, *NOTED)
    }
    for name, (_, reason) in ASIDE.items():
        assert found[name] == [f"skipped plugin aiperf-{name} 0.3: {reason}"]
    for name, (_, patterns) in NOTED.items():
        assert is_noted(found[name], patterns), name
    assert {one["remedy"] for one in facts} == {"update or remove it"}


def test_the_doctor_s_table_names_each(told):
    code, out, err = told["doctor"]
    assert (code, err) == (0, "")
    for name in (*ASIDE, *NOTED):
        line = rf"^plugin aiperf-{name} +\S.*?  +\S.*?  +\S.+$"
        assert re.search(line, out, re.MULTILINE), name


def test_the_rest_works(told):
    code, out, err = told["list --json"]
    assert code == 0
    assert {"practice.sum_rows", "prints.gather", "slow.gather", "torch.gather"} <= {
        one["name"] for one in json.loads(out)
    }
    assert sorted(err.splitlines()) == sorted(
        f"skipped plugin aiperf-{name} 0.3: {reason}" for name, (_, reason) in ASIDE.items()
    )
    code, out, err = told["run"]
    # 3 is for a finding, which a busy machine may cause.
    assert code in (0, 3), out + err
    assert "kept_output" in out
    assert "timed samples match the reference" in " ".join(out.split())
    assert "xxx" not in out + err


# What no process can survive, and what it leaves to say.
DEADLY = {
    "killed": ("import os\nos.kill(os.getpid(), 9)", "its loading ended the process (signal SIGKILL)"),
    "posix": ("import posix\nposix._exit(3)", "its loading ended the process (exit code 3)"),
    "stuck": ("import time\ntime.sleep(60)", "it was not loaded within 3 s"),
}


def test_what_ends_or_blocks_the_process_is_found_in_another(site, monkeypatch):
    monkeypatch.setattr(trial, "LIMIT_SECONDS", 3)
    for name, (source, _) in DEADLY.items():
        site.install(f"aiperf-{name}", source)
    site.install("aiperf-zeta", "print('noise')\n" + GOOD)
    found = trial.deadly_plugins()
    assert found == {(f"aiperf-{name}", name): reason for name, (_, reason) in DEADLY.items()}
    plugins = load_plugins([str(site.folder)], without=found)
    assert [one.name for one in plugins.targets] == ["zeta.gather"]
    assert [str(one) for one in plugins.set_aside] == [
        f"skipped plugin aiperf-{name} 0.3: {reason}" for name, (_, reason) in DEADLY.items()
    ]


def command(site, *arguments):
    path = os.pathsep.join(filter(None, [str(site.folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", "aiperf_core", *arguments], capture_output=True, text=True, env=environment
    )


def test_the_doctor_answers_where_nothing_else_does(site):
    site.write("torch.py", TORCH)
    site.install("aiperf-killed", DEADLY["killed"][0])
    assert command(site, "list").returncode == -9
    done = command(site, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    killed = "plugin aiperf-killed  skipped plugin aiperf-killed 0.3: its loading ended the process (signal SIGKILL)"
    assert killed in done.stdout


def test_a_plugin_that_is_interrupted_is_named(site):
    site.install("aiperf-stuck", "raise KeyboardInterrupt")
    done = command(site, "list")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == (
        "aiperf: interrupted while plugin aiperf-stuck 0.3 was loaded. To check plugins: aiperf doctor\n"
    )


def load_and(site, code):
    """Load what is installed there, and run code in which `plugin` is the plugin of aiperf-acme."""
    before = "import sys\nfrom aiperf_core.plugins import load_plugins\nplugins = load_plugins([sys.path[0]])\n"
    program = f"{before}assert not plugins.set_aside\nplugin = sys.modules['aiperf_acme.plugin']\n{code}"
    (site.folder / "program.py").write_text(program)
    return subprocess.run([sys.executable, site.folder / "program.py"]).returncode


def test_a_child_that_a_plugin_forks_may_end_itself(site):
    source = "import os\nchild = os.fork()\nif child == 0:\n    os._exit(5)\nended = os.waitpid(child, 0)[1]\n"
    site.install("aiperf-acme", source)
    assert load_and(site, "import os\nsys.exit(os.waitstatus_to_exitcode(plugin.ended))") == 5


def test_the_process_may_be_ended_again_afterwards(site):
    site.install("aiperf-acme", "from os import _exit as kept")
    assert load_and(site, "plugin.kept(6)") == 6
    assert load_and(site, "import os\nos._exit(7)") == 7
