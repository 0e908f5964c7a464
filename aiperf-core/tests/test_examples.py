"""The example package and `docs/your-package.md`, installed as a stranger would, offline."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "your-package.md"
EXAMPLE = ROOT / "examples" / "aiperf-example"
# The plugin is loaded by its entry point, unless the core was installed before it had one.
PYTEST = "" if entry_points(group="pytest11", name="aiperf") else "-p aiperf_core.pytest_plugin"

pytest.importorskip("hatchling", reason="needs hatchling, to build wheels offline")


class Environment:
    """A virtual environment that sees what is installed here, and whose `pip` needs no registry."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # What Python would search here, editable installs included.
        (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        self.script("aiperf", "-m aiperf_core")
        self.script("pytest", f"-m pytest {PYTEST} -p no:cacheprovider -W error")
        offline = "--disable-pip-version-check"
        self.script("pip", f"-m pip {offline}", install="--no-index --no-deps --no-build-isolation",
                    wheel="--no-index --no-build-isolation")  # fmt: skip

    def script(self, name, module, **extra):
        """Write a program that runs a module; `extra` is added to the arguments of some of its commands."""
        cases = "".join(f'{command}) shift; set -- {command} {flags} "$@";; ' for command, flags in extra.items())
        choose = f'case "$1" in {cases}esac\n' if extra else ""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{choose}exec "{self.bin}/python" {module} "$@"\n')
        path.chmod(0o755)

    def run(self, line, folder, **variables):
        """Run a line of shell; everything it prints."""
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example, installed from its wheel."""
    folder = tmp_path_factory.mktemp("example")
    environment = Environment(folder / "environment")
    environment.run(f"pip wheel '{EXAMPLE}' --no-deps --wheel-dir dist", folder)
    environment.run("pip install dist/aiperf_example-0.3.0-py3-none-any.whl", folder)
    return environment, folder


def test_the_example_is_found_by_its_entry_point(example):
    environment, folder = example
    loaded = json.loads(environment.run("aiperf plugins --json", folder))["loaded"]
    (one,) = [one for one in loaded if one["distribution"] == "aiperf-example"]
    assert (one["version"], one["entry_point"], one["notes"]) == ("0.3.0", "example", [])
    assert one["hooks"] == [
        "aiperf_targets", "aiperf_commands", "aiperf_issues", "aiperf_attacks", "aiperf_target_finished",
    ]  # fmt: skip
    where = environment.run("python -c 'import aiperf_example; print(aiperf_example.__file__)'", folder).strip()
    assert Path(where).is_relative_to(environment.folder)


def test_the_example_runs_is_observed_and_has_a_command(example, tmp_path):
    environment, folder = example
    notes = tmp_path / "notes.txt"
    line = f"aiperf run example --device cpu --size smoke --budget 0.2 --quiet --out '{tmp_path}/bundle'"
    assert "two_passes" in environment.run(line, folder, AIPERF_EXAMPLE_NOTES=str(notes))
    assert re.fullmatch(
        r"example\.row_norms:two_passes MEASURED\nexample\.row_norms:one_pass [A-Z]+\n", notes.read_text()
    )
    notes.write_text("a.b:c FASTER\na.b:d SLOWER\n")
    assert environment.run("aiperf example", folder, AIPERF_EXAMPLE_NOTES=str(notes)) == "1 of 2 rows were FASTER\n"


def test_the_example_s_issue_is_proven(example):
    environment, folder = example
    told = environment.run("aiperf validity example.unfinished_rows", folder)
    assert "aiperf_example.unfinished:whole_blocks (cpu)" in told
    proof = environment.run("aiperf selftest --issue example.unfinished_rows --device cpu --json --quiet", folder)
    (issue,) = json.loads(proof)["issues"]
    assert [(one["case"], one["outcome"]) for one in issue["proofs"]] == [
        ("aiperf_example.unfinished:whole_blocks", "found"),
        ("aiperf_example.unfinished:blocks_and_rest", "not flagged"),
    ]


def test_the_example_conforms(example):
    environment, folder = example
    code = "from aiperf_core.testing import conformance; print(conformance('aiperf-example'))"
    assert environment.run(f'python -c "{code}"', folder) == "[]\n"
    told = environment.run("pytest --aiperf=example -q", folder)
    assert re.search(r"^5 passed, 5 skipped", told, re.MULTILINE) or re.search(r"^10 passed", told, re.MULTILINE)


def test_every_command_of_the_page_on_packages_works(tmp_path):
    text = DOCS.read_text()
    commands = [line.removeprefix("$ ") for block in blocks(text, "console") for line in block.splitlines()]
    code, line, tests = blocks(text, "python")
    folder = tmp_path
    environment = Environment(tmp_path / "environment")
    for command in commands:
        if command == "aiperf lint acme":
            (folder / "src/aiperf_acme/row_means.py").write_text(code)
            (folder / "tests/test_row_means.py").write_text(tests)
            with (folder / "src/aiperf_acme/plugin.py").open("a") as page:
                page.write(line)
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            continue
        told = environment.run(command, folder)
        if command.startswith("pytest"):
            assert "acme.row_means:divided_once[cpu-awkward]" in environment.run(f"{command} --collect-only -q", folder)
            assert " failed" not in told
    assert [one.split()[0] for one in told.splitlines()] == ["NAME", "acme.scale_and_shift", "acme.row_means"]
    assert commands[0].startswith("pip install")


def blocks(text, language):
    """The fenced blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_page_is_linked_from_where_authors_look():
    for file in re.findall(r"\]\(([a-z-]+\.md)\)", DOCS.read_text()):
        assert (DOCS.parent / file).exists()
