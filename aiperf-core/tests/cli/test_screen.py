import io

import pytest
from rich.text import Text

from aiperf_core.cli.screen import Screen, consoles


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


def test_a_pipe_is_plain_even_where_colour_is_forced(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    Screen(stream).print(Text("FASTER", "bold green"), Text("5 ms   "))
    assert stream.getvalue() == "FASTER\n5 ms\n"


@pytest.mark.parametrize(("columns", "width"), [("20", 80), ("80", 80), ("93", 93), ("300", 100)])
def test_between_80_and_100_columns(monkeypatch, columns, width):
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
