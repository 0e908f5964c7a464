"""`aiperf tui`: its help, bad input, the numbered menu, and what it imports."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from aiperf_analysis.cli import tui
from aiperf_analysis.live import shown as live_shown
from aiperf_core.cli.main import Shell


@pytest.fixture
def menu(plugins, here):
    """Runs `aiperf tui --simple` with lines of input; its output."""

    def run(*lines, arguments=("--simple",), source=here):
        arguments = ["tui", *arguments, *([str(source)] if source else [])]
        done = CliRunner().invoke(Shell(plugins), arguments, input="".join(f"{one}\n" for one in lines))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


def test_help(aiperf):
    told = aiperf("tui", "--help")
    assert told.code == 0
    assert "Look at results in the terminal." in told.out
    assert "--simple" in told.out


def test_bad_input(aiperf, tmp_path):
    (tmp_path / "file").write_text("")
    told = aiperf("tui", tmp_path / "file")
    assert (told.code, told.err) == (
        2,
        f"aiperf: '{tmp_path}/file' is not a folder. Name a folder of bundles, such as artifacts/runs, or make "
        "results: aiperf run PATTERN\n",
    )
    told = aiperf("tui", tmp_path, "--db", "sqlite:///x")
    assert (told.code, told.err) == (
        2,
        "aiperf: --db reads from a store; give no folder with it, or add its bundles: aiperf db add FOLDER\n",
    )
    assert aiperf("tui", "--db", "mysql://x/y").code == 2


def test_a_pipe_gets_the_menu_and_is_told_so(menu):
    done = menu(arguments=())
    assert done.exit_code == 0
    assert done.stderr == "the input or the output is no terminal; this is the numbered menu of --simple.\n"
    assert done.stdout.startswith("results of runs\n  1 runs\n  2 a run\n")
    assert menu().stderr == ""


class _Terminal:
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("term", "found", "why"),
    [
        ("xterm", True, ""),
        ("dumb", True, "the terminal cannot move its cursor (TERM=dumb)"),
        ("xterm", False, f"the screens need textual, which is not installed ({tui.INSTALL})"),
    ],
)
def test_why_the_menu_is_used_in_a_terminal(monkeypatch, term, found, why):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setattr(tui, "find_spec", lambda name: object() if found else None)
    assert tui.why_simple(asked=False) == why
    assert tui.why_simple(asked=True) == ""


def test_every_choice_of_the_menu(menu):
    done = menu("1", "2", "whole", "3", "4", "1", "2", "5", "1", "2", "6", "ch09.matmul", "7", "8", "power", "",
                "9", "10", "11", "12", "?", "0")  # fmt: skip
    assert done.exit_code == 0
    out = done.stdout
    for told in (
        "Runs\n2 runs, 11 rows.",
        "Run whole\n3 rows:",
        "Rows of all runs\n",
        "row: ch09.matmul:tiled\nmedian: 1.499 ms",
        "48 samples: median 1.50 ms",
        "have no target in common",
        "History of time",
        "Pareto front of time and memory",
        "picture ch09.matmul on nvidia-h200-x1:",
        "the same in a shell: aiperf analyze pareto --in runs\n",
        "Machines\n",
        "No run is going on. Start a run: aiperf run\n",
        "read: 2 runs\n",
    ):
        assert told in out
    assert out.isascii() or "µ" in out
    assert out.count("  1 runs\n") == 2


def test_wrong_choices_are_explained(menu):
    done = menu("99", "x\x1b[31m", "2", "zzz", "2", "", "8", "pareto", "--nothing", "8", "1", "")
    out = done.stdout
    assert done.exit_code == 0
    assert "'99' is no choice. Type a number from 0 to 12." in out
    assert "'zzz' is in 0 names; a number or a part of a single name is needed." in out
    assert "No such option '--nothing'." in out
    assert "\x1b" not in out


def test_an_empty_folder_and_none(menu, tmp_path):
    done = menu("1", "3", "0", source=tmp_path)
    assert done.exit_code == 0
    assert done.stdout.count("holds no bundles. Name a bundle or a folder of bundles, or make one: aiperf run") == 2
    done = menu("1", source=None)
    assert "'artifacts/runs' does not exist, so there are no results yet." in done.stdout


def test_the_menu_shows_runs_that_go_on(menu, monkeypatch):
    from aiperf_analysis.live.tail import LiveRun

    monkeypatch.setattr(live_shown, "live_runs", lambda: [LiveRun("1-a", "running", {"phase": "sampling"})])
    assert "1 run going on." in menu("10").stdout


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["tui", "--help"], ["tui", "--simple", "runs"]])
def test_textual_is_imported_by_the_screens_only(here, tmp_path, arguments):
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "textual.py").write_text("raise SystemExit('textual was imported')\n")
    program = f"import sys; sys.path.insert(0, {str(fake)!r}); from aiperf_core.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input="1\n2\n1\n7\n0\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "textual was imported" in done.stderr) == (0, False), done.stderr
