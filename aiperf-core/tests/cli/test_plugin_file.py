"""Declarations in plugin.py that contradict the target's file: `show` and `run` say so, `lint --fix` corrects them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.cli.plugin_file import correct
from aiperf_core.errors import UsageError
from aiperf_core.targets import InstalledTarget

PLUGIN = """
BOTH = ("cpu", "cuda")

@hookimpl
def aiperf_targets():
    # é before the call
    yield Target("sound", "Größe", "memory", BOTH, tags=("a",))  # kept
"""
SOUND = (Path(__file__).parents[1] / "validity/targets/sound.py").read_text()
SAID = "plugin.py has the goal 'memory', the file 'speed', plugin.py lists cpu, cuda; the file defines cpu"
TARGET = InstalledTarget("acme.sound", "aiperf_acme.sound", summary="Größe", goal="memory")


@pytest.fixture
def package(site):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/sound.py", SOUND)
    return site


def ran(site, *arguments):
    search = os.pathsep.join(filter(None, [str(site.folder), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": search, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "aiperf_core", *arguments]
    return subprocess.run(command, cwd=site.folder, env=environment, capture_output=True, text=True)


def test_show_says_where_plugin_and_file_disagree(package):
    shown = CliRunner().invoke(Shell(package.load()), ["show", "acme.sound"])
    assert (shown.exit_code, shown.stderr) == (
        0,
        f"acme.sound: {SAID}. Correct plugin.py: aiperf lint --fix acme.sound\n",
    )


def test_run_says_it_too_until_lint_has_corrected_the_file(package):
    run = ("run", "acme.sound", "--device", "cpu", "--size", "smoke", "--budget", "0.02", "--quiet")
    assert f"acme.sound: {SAID}. Correct plugin.py: aiperf lint --fix acme.sound\n" in ran(package, *run).stderr
    file = package.folder / "aiperf_acme/plugin.py"
    before = file.read_text()
    done = ran(package, "lint", "--fix", "acme.sound")
    assert f"corrected acme.sound in '{file}': {SAID}\n" in done.stderr
    assert "form.contents" not in done.stdout
    assert file.read_text() == before.replace('"memory", BOTH', '"speed", ("cpu",)')
    assert [path.name for path in file.parent.iterdir() if path.suffix == ".tmp"] == []
    assert "plugin.py" not in ran(package, *run).stderr
    again = ran(package, "lint", "--fix", "acme.sound")
    assert "corrected" not in again.stderr


@pytest.mark.parametrize(
    ("declared", "corrected"),
    [
        ('Target("sound", "s", "memory", ["cuda"])', 'Target("sound", "s", "speed", ("cpu", "cuda"))'),
        (
            'Target(name="sound", devices=BOTH,\n    goal="memory", summary="s")',
            'Target(name="sound", devices=("cpu", "cuda"),\n    goal="speed", summary="s")',
        ),
        (
            'targets.Target(\r\n  "sound", "ü",\r\n  goal="speed", devices="cpu")',
            'targets.Target(\r\n  "sound", "ü",\r\n  goal="speed", devices=("cpu", "cuda"))',
        ),
    ],
)
def test_a_declaration_keeps_its_form(tmp_path, declared, corrected):
    file = tmp_path / "plugin.py"
    file.write_bytes(f"yielded = [\n {declared}, Target('other', '', 'memory', 'cpu')]\n".encode())
    correct(file, TARGET, "speed", ["cpu", "cuda"])
    assert file.read_bytes().decode() == f"yielded = [\n {corrected}, Target('other', '', 'memory', 'cpu')]\n"


@pytest.mark.parametrize(
    "text",
    [
        "for name in NAMES:\n    Target(name, '', 'memory', 'cpu')\n",
        "Target('sound', **FACTS)\n",
        "Target(*FACTS)\n",
        "Target('sound', '', 'memory', 'cpu'); Target('sound', '', 'memory', 'cpu')\n",
        "def (\n",
    ],
)
def test_a_form_that_is_not_known_is_refused_with_the_line(tmp_path, text):
    file = tmp_path / "plugin.py"
    file.write_text(text)
    message = (
        f"'{file}' does not declare 'acme.sound' in a call of Target with the name as a literal, so it is not rewritten. "
        'Write there: Target("sound", "Größe", goal="speed", devices=("cpu",))'
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        correct(file, TARGET, "speed", ["cpu"])
    assert file.read_text() == text
    assert [*tmp_path.iterdir()] == [file]
