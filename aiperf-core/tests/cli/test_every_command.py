"""Every command of every installed package: without arguments and with `--help`, on a machine without a GPU."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

SHELL = Shell(load_plugins())
# Measuring commands, with arguments that keep them short.
BRIEF = {
    "ch01 pitfalls": ["--samples", "3", "--size", "16"],
    "ch01 scaling": ["--ranks", "1", "--steps", "3", "--width", "16"],
    "ch04 comm-sweep": ["--max-bytes", "1024", "--collective", "broadcast"],
    "ch07 stride-sweep": ["--mib", "1"],
    "ch07 widths": ["ch07.memory_access"],
    "kernels": ["practice.softmax"],
    "selftest": ["--issue", "timing.no_such_issue"],
}
# What `docs/exit-codes.md` documents. No command has findings or regressions without arguments.
CODES = (0, 1, 2)
SHORT = {"--out": "-o", "--size": "-s", "--device": "-d", "--quiet": "-q", "--verbose": "-v", "--tier": "-t"}


def walk(command: click.Command, path: list[str]) -> Any:
    """Every command below this one, with its path."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(found, [*path, name])
    yield path, command


COMMANDS = {" ".join(path): command for path, command in walk(SHELL, []) if path}


def started(*arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run aiperf in a process of its own; a variable that is None is unset."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **changes}
    return subprocess.run(
        [sys.executable, "-m", "aiperf_core", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env={name: value for name, value in environment.items() if value is not None},
    )


def assert_handled(done: subprocess.CompletedProcess[str], codes: tuple[int, ...] = CODES) -> None:
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in codes, done.stderr
    if done.returncode == 2:
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("aiperf: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    result = CliRunner().invoke(SHELL, [*name.split(), "--help"])
    assert (result.exit_code, result.exception) == (0, None)
    assert result.stdout.startswith(f"Usage: aiperf {name} ")
    # A summary that does not fit is cut off.
    _, _, listed = result.stdout.partition("\nCommands:\n")
    assert not [line for line in listed.splitlines() if line.endswith("...")]
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("ceilings", "doctor")])
def test_without_arguments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_handled(started(*name.split(), *BRIEF.get(name, [])))


def test_the_help_lists_each_command_on_one_line() -> None:
    lines = CliRunner().invoke(SHELL, ["--help"]).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for name, installed in SHELL.plugins.commands.items():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == installed.record.summary


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_the_same_short_names_everywhere(name: str) -> None:
    for parameter in COMMANDS[name].params:
        for long, short in SHORT.items():
            assert (long in parameter.opts) == (short in parameter.opts), parameter.opts
