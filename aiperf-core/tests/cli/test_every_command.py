"""Every command of every installed package: without arguments and with `--help`, on a machine without a GPU."""

import fcntl
import inspect
import itertools
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
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
    # Their tests run them with ranks, or train a model. There is no GPU here.
    "ch04 comm-init": ["--device", "cuda"],
    "ch04 comm-sweep": ["--device", "cuda"],
    "ch04 straggler": ["--device", "cuda"],
    "labs one-model plan": ["--device", "cuda"],
    "ch07 stride-sweep": ["--mib", "1"],
    "ch07 widths": ["ch07.memory_access"],
    "kernels": ["practice.softmax"],
    "selftest": ["--issue", "timing.no_such_issue"],
    # Servers that would serve until they are stopped.
    "load serve clockwork": ["--service", "sometimes"],
    "load serve tiny": ["--port", "70000"],
    "demo": ["--port", "70000"],
}
# What `docs/exit-codes.md` documents. No command has findings or regressions without arguments.
CODES = (0, 1, 2)
# Imports once, and executes each command in a process of its own, which ends as by itself. A NUL follows its output, and
# the exit codes stand on standard error.
EACH = """
import os, sys
from aiperf_core.cli.main import main
from aiperf_core.plugins import load_plugins
load_plugins()
codes = []
for command in sys.argv[1:]:
    if os.fork() == 0:
        sys.argv[1:] = command.split()
        main()
    codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
    try:
        os.write(1, bytes(1))
    except BrokenPipeError:
        pass
os.write(2, f"{codes}\\n".encode())
"""
SHORT = {"--out": "-o", "--size": "-s", "--device": "-d", "--quiet": "-q", "--verbose": "-v", "--tier": "-t"}


def walk(command: click.Command, path: list[str]) -> Any:
    """Every command below this one, with its path."""
    if isinstance(command, click.Group):
        context = click.Context(command, obj=SHELL.plugins)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(found, [*path, name])
    yield path, command


COMMANDS = {" ".join(path): command for path, command in walk(SHELL, []) if path}


def started(*line: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own; a variable that is None is unset."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **changes}
    return subprocess.run(
        [sys.executable, *line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env={name: value for name, value in environment.items() if value is not None},
    )


def assert_handled(code: int, out: str, err: str, codes: tuple[int, ...] = CODES) -> None:
    assert "Traceback" not in out + err
    assert code in codes, err
    if code == 2:
        assert out == ""
        assert len(err.splitlines()) == 1
        assert err.startswith("aiperf: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    result = CliRunner().invoke(SHELL, [*name.split(), "--help"])
    assert (result.exit_code, result.exception) == (0, None)
    assert result.stdout.startswith(f"Usage: aiperf {name} ")
    # A summary that does not fit is cut off.
    _, _, listed = result.stdout.partition("\nCommands:\n")
    assert not [line for line in listed.splitlines() if line.endswith("...")]
    assert max(map(len, result.stdout.splitlines())) <= 80
    # Click leaves a block of examples as it is by a backspace, which a raw docstring would print.
    assert "\\b" not in result.stdout
    # No word is broken.
    assert not re.findall(r"[a-z]-\n", result.stdout)


def parameters_of(name: str) -> list[click.Parameter]:
    context = click.Context(COMMANDS[name], obj=SHELL.plugins)
    return [one for one in COMMANDS[name].get_params(context) if not getattr(one, "hidden", False)]


@pytest.mark.parametrize("name", [name for name in COMMANDS if not COMMANDS[name].hidden])
def test_the_help_explains_each_option(name: str) -> None:
    """Each option has a text, a word for its value that says more than a type, and its default."""
    context = click.Context(COMMANDS[name], obj=SHELL.plugins)
    for one in parameters_of(name):
        if isinstance(one, click.Option):
            assert one.help, one.opts
            metavar = "" if one.is_flag else one.make_metavar(context)
            assert not re.fullmatch(r"TEXT|STR|INT|INTEGER|FLOAT|PATH|DIRECTORY|(INTEGER|FLOAT) RANGE", metavar), (
                one.opts
            )
            shown = one.show_default or "default" in one.help.lower() or one.multiple or one.is_flag
            assert shown or not isinstance(one.default, str | int | float) or one.default == "", one.opts


def examples() -> list[str]:
    """The examples in the help of all commands, each on one line."""
    blocks = [inspect.cleandoc(command.help or "").partition("\nExamples:\n")[2] for command in COMMANDS.values()]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize("example", examples())
def test_an_example_has_only_options_that_exist(example: str) -> None:
    first, *words = shlex.split(example.partition(" -- ")[0].partition(" > ")[0])
    assert first == "aiperf"
    name = next(" ".join(words[:many]) for many in (3, 2, 1) if " ".join(words[:many]) in COMMANDS)
    known = {option: one for one in parameters_of(name) for option in one.opts}
    rest = words[len(name.split()) :]
    assert {word for word in rest if word.startswith("-")} <= {*known}
    for option, value in itertools.pairwise(rest):
        kind = known[option].type if option in known else None
        assert not isinstance(kind, click.Choice) or value in kind.choices


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("ceilings", "doctor", "probe")])
def test_without_arguments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_ceilings: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    # No command without arguments writes into it: what they would measure is there.
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(known_ceilings))
    done = CliRunner().invoke(SHELL, [*name.split(), *BRIEF.get(name, [])])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert_handled(done.exit_code, done.stdout, done.stderr)


def test_the_help_lists_each_command_on_one_line() -> None:
    lines = CliRunner().invoke(SHELL, ["help", "--all"]).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for name, installed in SHELL.plugins.commands.items():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == installed.record.summary


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_the_same_short_names_everywhere(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if parameter.metavar == "NAME=VALUE":
            continue  # a size of a scenario, not a preset of sizes
        for long, short in SHORT.items():
            assert (long in parameter.opts) == (short in parameter.opts), parameter.opts


# Commands that take a target, with what they need besides.
OF_TARGETS = (
    "list",
    "tags",
    "run",
    "profile",
    "lint",
    "kernels",
    "goals",
    "show",
    "page -o page.md",
    "expectations write",
    "list -k softmax --exclude",
    "judge candidate.py --target",
    "ch06 occupancy",
    "ch07 widths",
    "ch07 access-report",
)
# Commands that take a bundle.
OF_BUNDLES = (
    "show",
    "compare a/b",
    "recheck",
    "reproduce",
    "report",
    "roofline -o roofline.svg",
    "export --format csv",
    "expectations check",
    "expectations report",
    "run --resume",
    "ch01 goodput-report",
)


@pytest.mark.parametrize("command", OF_TARGETS)
def test_an_unknown_target_is_refused_with_the_nearest_name(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(SHELL, [*command.split(), "practice.softmaxx"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "aiperf: 'practice.softmaxx' is not a target. Did you mean 'practice.softmax'?\n"


@pytest.mark.parametrize("command", OF_BUNDLES)
def test_a_missing_bundle_is_one_line(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(SHELL, [*command.split(), "no/such"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("aiperf: ")


PLACES = {
    "no home": {"HOME": None, "XDG_CACHE_HOME": None, "AIPERF_CACHE_DIR": None},
    "no terminal type": {"TERM": None},
    "an ASCII locale": {"LC_ALL": "C", "PYTHONUTF8": "0"},
    "40 columns": {"COLUMNS": "40"},
    # Below a file no folder can be made, not even by root.
    "a cache that cannot be written": {"AIPERF_CACHE_DIR": f"{__file__}/cache"},
}
ANYWHERE = ("list", "plugins", "validity", "--help")


@pytest.mark.parametrize("place", PLACES)
def test_in_any_environment(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = started("-c", EACH, *ANYWHERE, **PLACES[place])
    assert_answered(done.stdout, done.stderr)


def assert_answered(out: str, err: str) -> None:
    """Assert that each of the commands has an answer."""
    assert "Traceback" not in out + err
    assert err.splitlines()[-1] == str([0] * len(ANYWHERE))
    *answers, rest = out.split("\0")
    assert (len(answers), all(answers), rest) == (len(ANYWHERE), True, "")


def test_kernels_compile_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = PLACES["a cache that cannot be written"]
    done = started("-m", "aiperf_core", "kernels", "ch07.memory_access", "--arch", "sm_80", **place)
    assert_handled(done.returncode, done.stdout, done.stderr, (0,))
    assert done.stderr == ""


def in_a_terminal(line: list[str], columns: int, folder: Path) -> tuple[int, str]:
    """Run Python in a terminal of this width; its exit code and what was shown."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, *line],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the terminal closed with its last process
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(60), shown.decode()


def test_in_a_terminal_of_40_columns(tmp_path: Path) -> None:
    code, shown = in_a_terminal(["-c", EACH, *ANYWHERE], 40, tmp_path)
    assert code == 0
    out, codes = shown.rsplit("\0", 1)
    assert_answered(f"{out}\0", codes)


def test_a_message_breaks_between_words(tmp_path: Path) -> None:
    code, shown = in_a_terminal(["-m", "aiperf_core", "tags", "no_such_target"], 40, tmp_path)
    lines = shown.splitlines()
    assert code == 2
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).startswith("aiperf: 'no_such_target' is not a target")


# Each prints its exit code on standard error, where that is open.
STREAMS = {
    "$P $A list >&-; echo $? >&2": "0\n",
    "$P $A list <&- >&- 2>&-; echo $? >&2": "0\n",
    "$P $A list > /dev/full; echo $? >&2": "aiperf: standard output cannot be written: No space left on device\n74\n",
    "$P $A list --json > /dev/full; echo $? >&2": (
        "aiperf: standard output cannot be written: No space left on device\n74\n"
    ),
    "$P $A list > /dev/full 2>&1; echo $? >&2": "74\n",
    "$P $A --help > /dev/full 2> /dev/full; echo $? >&2": "74\n",
    "$P $A tags no_such > /dev/full 2>&1; echo $? >&2": "2\n",
}


@pytest.mark.parametrize("script", STREAMS)
def test_streams_that_cannot_be_written(script: str) -> None:
    environment = {**os.environ, "P": sys.executable, "A": "-m aiperf_core"}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True)
    assert done.stderr == STREAMS[script]


def test_output_to_a_terminal_that_is_gone() -> None:
    ours, theirs = os.openpty()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "aiperf_core", "list"], stdout=theirs, stderr=subprocess.PIPE, text=True
    )
    os.close(theirs)
    message = "aiperf: standard output cannot be written: Input/output error\n"
    assert (done.returncode, done.stderr) == (74, message)


def test_output_to_a_pipe_that_does_not_block() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    process = subprocess.Popen([sys.executable, "-m", "aiperf_core", "list", "--json"], stdout=writing)
    os.close(writing)
    with open(reading) as file:
        time.sleep(1)
        assert json.load(file)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    "redirect",
    [pytest.param("> /dev/full", marks=pytest.mark.long), ">&- 2>&-", "2>&1 > /dev/full | head -1"],
)
def test_a_run_ends_whole_where_its_output_cannot_be_written(
    redirect: str, tmp_path: Path, new_cache: Callable[[], Path]
) -> None:
    run = "-m aiperf_core run practice.sum_rows:library --size smoke --budget 0.05 --device cpu --out bundle"
    environment = {**os.environ, "AIPERF_CACHE_DIR": str(new_cache())}
    line = ["sh", "-c", f"{sys.executable} {run} {redirect}"]
    subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, timeout=200)
    done = CliRunner().invoke(SHELL, ["recheck", str(tmp_path / "bundle")])
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads((tmp_path / "bundle/manifest.json").read_text())["complete"] is True


@pytest.mark.parametrize(
    "command",
    [
        "new LONG",
        "new aiperf-x -o LONG",
        "judge --serve LONG --target practice.softmax",
        "schema -o LONG",
        "explain LONG",
    ],
)
def test_a_name_that_is_too_long_is_one_line(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(SHELL, command.replace("LONG", "a" * 300).split())
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "File name too long" in result.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_closed_pipe_ends_as_by_its_signal() -> None:
    commands = ("list", "tags", "plugins", "validity", "--help", "ch01 --help")
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-c", EACH, *commands]
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == f"{[141] * len(commands)}\n"
