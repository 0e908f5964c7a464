"""What may import what, and who may print."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {path.name: path for path in sorted(ROOT.glob("aiperf-*/src/aiperf_*"))}
SOURCES = [(name, path) for name, folder in PACKAGES.items() for path in sorted(folder.rglob("*.py"))]


# What writes to the terminal.
PRINTS = ("print", "click.echo", "click.secho", "rich.print", "sys.stdout.write", "sys.stderr.write")


def parsed(path, words):
    """Return the tree of a source that has one of the words, else an empty one: to parse all sources takes seconds."""
    text = path.read_text()
    return ast.parse(text if any(word in text for word in words) else "", str(path))


def imported(tree):
    """Name the top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def required(package):
    """Name the packages of this repository that a package requires; `test_packages.py` has those that it may."""
    project = tomllib.loads((ROOT / package.replace("_", "-") / "pyproject.toml").read_text())["project"]
    return {name.replace("-", "_") for name in re.findall(r"aiperf-\w+", " ".join(project["dependencies"]))}


def test_imports_point_one_way():
    assert {"aiperf_core", "aiperf_ch01", "aiperf_ch07"} <= PACKAGES.keys()
    above = {package: PACKAGES.keys() - {package} - required(package) for package in PACKAGES}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package, path in SOURCES
        for name in imported(parsed(path, above[package]))
        if name in above[package]
    ]
    assert wrong == []


def prints(node):
    """Whether a node writes to the terminal. `print(..., file=...)` writes to where it is told."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called in PRINTS and (called != "print" or all(keyword.arg != "file" for keyword in node.keywords))


def reached(tree):
    """Walk a module, without what it does only when it is itself run: `if __name__ == "__main__":`."""
    for statement in tree.body:
        if not (isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"):
            yield from ast.walk(statement)


def test_only_the_command_prints():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for package, path in SOURCES
        for node in reached(parsed(path, [f"{name}(" for name in PRINTS]))
        # An attack prints what it found, to its own log.
        if prints(node) and "cli" not in (path.parent.name, path.stem) and package != "aiperf_redteam"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print(1)", True),
        ("print(1, file=f)", False),
        ("click.echo(1)", True),
        ("sys.stdout.write('')", True),
        ("f()", False),
    ],
)
def test_printing_is_recognized(code, expected):
    assert prints(ast.parse(code).body[0].value) is expected


def test_plugins_are_seen_to_import():
    assert set(imported(ast.parse("import a.b, c\ndef f():\n    from d.e import f"))) == {"a", "c", "d"}


def in_front(folder):
    """Return the environment with a folder in front of what Python already searches."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list"], ["list", "--runnable"], ["list", "--json"], ["plugins"]]
)
def test_finding_and_listing_import_nothing_heavy(tmp_path, arguments):
    for name in ("torch", "triton", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"raise BaseException('{name} was imported')")
    command = [sys.executable, "-m", "aiperf_core", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=in_front(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_heavy_import_would_be_seen(tmp_path):
    (tmp_path / "torch.py").write_text("raise BaseException('torch was imported')")
    command = [sys.executable, "-m", "aiperf_core", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=in_front(tmp_path))
    assert "BaseException: torch was imported" in done.stdout
