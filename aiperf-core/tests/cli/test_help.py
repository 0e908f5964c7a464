import re

import pytest
from click.testing import CliRunner

from aiperf_core.cli import first_screen
from aiperf_core.cli.leveled import Leveled
from aiperf_core.cli.main import Shell
from aiperf_core.cli.run import GROUPS, run
from aiperf_core.commands import Command
from aiperf_core.plugins import Installed, Plugins, load_plugins
from aiperf_core.results import example

MOST_SHOWN = 12
SHELL = Shell(load_plugins())


def listed(text):
    """The names at the beginning of the lines below the headings."""
    return re.findall(r"^  ([a-z][a-z0-9-]+)  ", text, re.MULTILINE)


def told(*arguments, shell=SHELL):
    found = CliRunner().invoke(shell, arguments)
    assert (found.exit_code, found.stderr) == (0, "")
    return found.stdout


def test_help_shows_few_commands_and_names_the_way_to_all():
    text = told("--help")
    assert text == told("help")
    assert 0 < len(listed(text)) <= MOST_SHOWN
    assert text.endswith(f"\nAll {len(SHELL.plugins.commands)} commands: aiperf help --all\n")


def test_help_all_shows_every_command():
    assert sorted(listed(told("help", "--all"))) == sorted(SHELL.plugins.commands)


def test_commands_of_others_are_in_help_all():
    tea = Installed(Command("tea", "Make tea.", "a.b:c"), "aiperf-acme", "0.3")
    daily = Installed(Command("milk", "Fetch milk.", "a.b:c", everyday=True), "aiperf-acme", "0.3")
    shell = Shell(Plugins(commands={**load_plugins([]).commands, "tea": tea, "milk": daily}))
    assert "milk" in listed(told("--help", shell=shell))
    assert "tea" not in listed(told("--help", shell=shell))
    assert "tea" in listed(told("help", "--all", shell=shell))


@pytest.mark.parametrize("names", [["list"], ["results", "list"]])
def test_help_of_a_command(names):
    assert told("help", *names) == told(*names, "--help")


def test_help_of_a_command_that_is_not_there():
    found = CliRunner().invoke(SHELL, ["help", "results", "nothing"])
    message = "aiperf: 'results nothing' is not a command. All commands: aiperf help --all\n"
    assert (found.exit_code, found.stdout, found.stderr) == (2, "", message)


def options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE))))


def test_run_shows_seven_options_and_the_others_by_help_all():
    assert options(told("run", "--help")) == {
        "--variant", "--size", "--set", "--budget", "--device", "--tier", "--out", "--help", "--help-all",
    }  # fmt: skip
    text = told("run", "--help-all")
    assert text == told("help", "run", "--all")
    assert options(text) == {one.opts[-1] for one in run.params if one.param_type_name == "option"} | {"--help"}
    assert [f"\n{heading}:\n" in text for heading in GROUPS] == [True] * len(GROUPS)


def test_each_option_of_run_is_in_a_group():
    grouped = [name for names in GROUPS.values() for name in names]
    assert isinstance(run, Leveled)
    assert sorted(grouped) == sorted(one.name for one in run.params if one.param_type_name == "option")


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(first_screen, "_machine", lambda: "a machine")


@pytest.mark.usefixtures("empty_folder")
def test_the_first_screen(site):
    site.install(
        "aiperf-acme",
        """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted indices turn a gather into a copy", "speed", ("cpu",), ("memory",))
""",
    )
    assert (
        told(shell=Shell(site.load()))
        == """\
aiperf 0.1.0, a machine, 1 benchmark

  aiperf list              the benchmarks, each with its lesson
  aiperf run acme.gather   a first measurement
  aiperf show acme.gather  what a benchmark measures, and why variants are faster
  aiperf new my-bench      your own benchmark; then aiperf watch

machine   what it can run, and what is missing: aiperf doctor
more      aiperf help, aiperf help --all
"""
    )
    assert "aiperf run" not in told(shell=Shell(load_plugins([])))
    assert "  aiperf learn  " in told()


@pytest.mark.usefixtures("empty_folder")
def test_the_first_screen_names_the_last_run(bundle, tmp_path):
    (tmp_path / "artifacts/runs").mkdir(parents=True)
    bundle.path.rename(tmp_path / "artifacts/runs/20261121-142530-x")
    command = " ".join(example.manifest().command)
    assert re.search(rf"^last run  \d+ d ago, {command}: aiperf show latest$", told(), re.MULTILINE)
    (tmp_path / "artifacts/runs/20261121-142530-x/manifest.json").write_text("{")
    assert "last run" not in told()


def test_an_age():
    ages = [first_screen._ago(seconds) for seconds in (-1, 5, 61, 7300, 200_000)]
    assert ages == ["0 s ago", "5 s ago", "1 min ago", "2 h ago", "2 d ago"]
