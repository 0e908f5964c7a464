import io

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from aiperf_core.cli.color import color_option
from aiperf_core.cli.screen import Screen, consoles
from aiperf_core.cli.tables import print_table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_has_colours():
    stream = Terminal()
    Screen(stream).print(Text("FASTER", "bold green"))
    assert stream.getvalue() == "\x1b[1;32mFASTER\x1b[0m\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    stream = Terminal()
    screen = Screen(stream)
    screen.print(Text("FASTER", "bold green"))
    assert stream.getvalue() == "FASTER\n"
    assert screen.look.plain
    assert screen.terminal


def screen_of(command_line, stream):
    """What a command prints FASTER with, called with these arguments."""

    @click.command()
    @color_option
    def command():
        Screen(stream).print(Text("FASTER", "bold green"))
        print_table(("A", "B"), [("x", "FASTER"), ("y", "FAILED"), ("z", "INCONCLUSIVE")])

    return CliRunner().invoke(command, command_line)


def test_color_always_colours_a_pipe_and_beats_no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    found = screen_of(["--color", "always"], stream)
    assert stream.getvalue() == "\x1b[1;32mFASTER\x1b[0m\n"
    assert "\x1b[32m\x1b[1mFASTER" in found.stdout
    assert "\x1b[31m\x1b[1mFAILED" in found.stdout
    assert "\x1b[33mINCONCLUSIVE" in found.stdout


@pytest.mark.parametrize("arguments", [["--color", "never"], ["--color", "auto"], []])
def test_a_pipe_has_no_control_characters(arguments):
    stream = io.StringIO()
    assert "\x1b" not in screen_of(arguments, stream).stdout + stream.getvalue()


@pytest.mark.parametrize(("choice", "coloured"), [("never", False), ("auto", True), ("always", True)])
def test_color_in_a_terminal(choice, coloured):
    stream = Terminal()
    screen_of(["--color", choice], stream)
    assert ("\x1b" in stream.getvalue()) is coloured


def test_color_of_another_word():
    assert "'auto', 'always', 'never'" in screen_of(["--color", "red"], io.StringIO()).stderr


def test_the_width_in_a_pipe_is_not_that_of_a_terminal():
    screen = Screen(io.StringIO())
    assert (screen.console.width, screen.room) == (80, None)


def test_a_wide_table_is_whole_in_a_pipe(monkeypatch):
    stream = io.StringIO()
    screen = Screen(stream)
    screen.print_wide(Text("x " * 200))
    assert stream.getvalue() == ("x " * 200).rstrip() + "\n"
    assert screen.console.width == 80


def test_the_line_of_an_event_breaks_between_words_in_a_terminal_and_not_in_a_log(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown, log = Terminal(), io.StringIO()
    for stream in (shown, log):
        Screen(stream).print_line(Text("several words " * 5))
    assert all(line.endswith(("several", "words")) for line in map(str.rstrip, shown.getvalue().splitlines()))
    assert len(log.getvalue().splitlines()) == 1


def test_a_pipe_is_plain_even_where_colour_is_forced(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    Screen(stream).print(Text("FASTER", "bold green"), Text("5 ms   "))
    assert stream.getvalue() == "FASTER\n5 ms\n"


@pytest.mark.parametrize(("columns", "width"), [("20", 40), ("40", 40), ("93", 93), ("300", 120)])
def test_between_40_and_120_columns(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert Screen(io.StringIO()).console.width == width
    assert Screen(Terminal()).console.width == width


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_a_stream_cannot_spell_becomes_an_escape(encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    Screen(stream).print(Text("5 µs → 漢"))
    assert raw.getvalue().decode("ascii", "backslashreplace").replace("\\xb5", "µ").startswith("5 ")
    assert b"\\u2192 \\u6f22" in raw.getvalue()


def test_markup_and_emoji_in_text_are_left_alone():
    stream = Terminal()
    Screen(stream).print("[red]x[/red] :warning: 123")
    assert stream.getvalue() == "[red]x[/red] :warning: 123\n"


def test_both_streams(capsys):
    out, err = consoles()
    out.print(Text("results"))
    err.print(Text("progress"))
    assert capsys.readouterr() == ("results\n", "progress\n")
