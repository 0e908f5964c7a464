import os
import platform
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from aiperf_core import __version__
from aiperf_core.cli.main import Shell
from aiperf_core.commands import Command
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.plugins import Installed, Plugins, load_plugins


def shell_with(callback):
    """Return the shell with one command, `tea`, that does what `callback` does."""
    command = Command("tea", "Make tea.", lambda: click.Command("tea", callback=callback))
    return Shell(Plugins(commands={"tea": Installed(command, "aiperf-acme", "0.3")}))


def run(callback, *arguments):
    return CliRunner().invoke(shell_with(callback), ["tea", *arguments])


def raising(error):
    def callback():
        raise error

    return callback


# click's own wording, which differs between its versions.
NO_OPTION = click.NoSuchOption("--nothing").format_message().rstrip(".")

HELP = """\
Usage: aiperf [OPTIONS] COMMAND ...

  Run benchmarks of GPU and AI-systems work whose numbers can be believed.

Options:
  --version   Show the version.
  -h, --help  Show this message and exit.

Packages:
  tea  Make tea.
"""


@pytest.mark.parametrize("arguments", [["-h"], ["--help"]])
def test_help_names_the_commands_without_importing_them(arguments):
    def load():
        raise AssertionError("imported")

    shell = Shell(Plugins(commands={"tea": Installed(Command("tea", "Make tea.", load), "aiperf-acme", "0.3")}))
    result = CliRunner().invoke(shell, arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, HELP, "")


def test_version_names_the_plugins(site):
    python = platform.python_version()
    site.install("aiperf-acme", "")
    site.install("aiperf-bolt", "", version="2.0")
    assert CliRunner().invoke(Shell(site.load()), ["--version"]).stdout == (
        f"aiperf {__version__} (Python {python}, plugins: aiperf-acme 0.3, aiperf-bolt 2.0)\n"
    )
    assert CliRunner().invoke(Shell(load_plugins([])), ["--version"]).stdout == (
        f"aiperf {__version__} (Python {python}, plugins: none)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "aiperf: 'lst' is not a command. Did you mean 'list'?\n"),
        (["zzz"], "aiperf: 'zzz' is not a command. All commands: aiperf help --all\n"),
        (
            ["selftest", "--category", "timing"],
            "aiperf: 'selftest' is not installed. It comes with the package aiperf-redteam. Install it, in a clone of aiperf: "
            "pip install -e ./aiperf-redteam\n",
        ),
        (["--nothing"], f"aiperf: {NO_OPTION}. See: aiperf --help\n"),
        (["list", "--nothing"], f"aiperf: {NO_OPTION}. See: aiperf list --help\n"),
        (
            ["list", "--runable"],
            "aiperf: No such option '--runable'. Did you mean '--runnable'? See: aiperf list --help\n",
        ),
        (["plugins", "x"], "aiperf: Got unexpected extra argument (x). See: aiperf plugins --help\n"),
    ],
)
def test_a_wrong_command_line(arguments, message):
    result = CliRunner().invoke(Shell(load_plugins([])), arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_a_missing_command_may_be_one_of_a_skipped_plugin(site):
    site.install("aiperf-acme", "import no_such_module")
    assert CliRunner().invoke(Shell(site.load()), ["tea"]).stderr == (
        "aiperf: 'tea' is not a command. All commands: aiperf help --all Plugins were skipped: aiperf plugins\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (AiperfError("No tea is left. Buy some."), 1, "aiperf: No tea is left. Buy some.\n"),
        (UsageError("'tee' is not tea."), 2, "aiperf: 'tee' is not tea.\n"),
        (click.ClickException("Cold."), 1, "aiperf: Cold.\n"),
    ],
)
def test_a_handled_error_is_one_paragraph_with_its_exit_code(error, code, message):
    result = run(raising(error))
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", message)


def test_a_bug_keeps_its_traceback():
    result = run(raising(ZeroDivisionError("a bug")))
    assert isinstance(result.exception, ZeroDivisionError)


def test_ctrl_c_ends_as_the_shell_expects():
    assert run(raising(KeyboardInterrupt())).exit_code == 130


def test_declining_a_question_is_no_interrupt():
    assert run(raising(click.Abort())).exit_code == 1


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (ExitCode.INVALID, 3), (0, 0)])
def test_a_command_returns_its_exit_code(returned, code):
    assert run(lambda: returned).exit_code == code


def test_a_command_may_exit_through_its_context():
    assert run(lambda: click.get_current_context().exit(4)).exit_code == 4


def test_a_stranger_s_command_that_cannot_be_loaded_is_told_without_our_traceback():
    def load():
        raise ImportError("no kettle")

    shell = Shell(Plugins(commands={"tea": Installed(Command("tea", "Make tea.", load), "aiperf-acme", "0.3")}))
    result = CliRunner().invoke(shell, ["tea"])
    assert (result.exit_code, result.stderr) == (
        1,
        "aiperf: 'tea' of plugin aiperf-acme 0.3 cannot be loaded: ImportError: no kettle\n",
    )


def test_a_command_of_ours_that_cannot_be_loaded_is_our_bug():
    installed = Installed(Command("tea", "Make tea.", "aiperf_core.no_such:tea"), "aiperf-core", __version__)
    result = CliRunner().invoke(Shell(Plugins(commands={"tea": installed})), ["tea"])
    assert isinstance(result.exception, ModuleNotFoundError)


def test_every_built_in_command_has_help():
    shell = Shell(load_plugins([]))
    for name in shell.plugins.commands:
        result = CliRunner().invoke(shell, [name, "--help"])
        assert (result.exit_code, result.exception) == (0, None), name
        assert result.stdout.startswith(f"Usage: aiperf {name} ")


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "aiperf_core", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"aiperf {__version__} (Python ")


def into_a_closed_pipe(*arguments):
    reading, writing = os.pipe()
    os.close(reading)
    # With PYTHONUNBUFFERED nothing is left to be written when Python ends, which is what is looked at here.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        return subprocess.run([sys.executable, *arguments], stdout=writing, stderr=subprocess.PIPE, env=buffered)
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", [["--help"], ["list"], ["plugins", "--json"]])
def test_a_closed_pipe_is_quiet(command):
    done = into_a_closed_pipe("-m", "aiperf_core", *command)
    assert (done.returncode, done.stderr) == (141, b"")


# A plain print is written when Python ends, which is too late for an error to be handled.
PRINTS = """
import click
from aiperf_core.cli import output
from aiperf_core.cli.main import Shell
from aiperf_core.commands import Command
from aiperf_core.plugins import Installed, Plugins
tea = Command("tea", "Make tea.", lambda: click.Command("tea", callback=lambda: print("tea")))
output.hold_streams()
Shell(Plugins(commands={"tea": Installed(tea, "aiperf-acme", "0.3")})).main(["tea"])
"""


def test_a_closed_pipe_is_quiet_for_a_command_that_prints():
    done = into_a_closed_pipe("-c", PRINTS)
    assert (done.returncode, done.stderr) == (141, b"")
