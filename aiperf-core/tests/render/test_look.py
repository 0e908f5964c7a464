import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.names import MOST_LINES, lines, words
from aiperf_core.render.look import VERDICT_STYLES, Look
from aiperf_core.results.models import Verdict


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("plain µ – text", "plain µ – text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("over\rwritten\nline\ttab", "over written line tab"),
        ("a\x00b\x08c\x9bd", "a?b?c?d"),
        ("right\u202eleft", "right?left"),
        ("byte\udcff", "byte?"),
    ],
)
def test_words_cannot_move_the_cursor(content, shown):
    assert words(content) == shown


def test_lines_are_kept_up_to_a_number():
    assert lines("a.c:1: error\n  cc \x1b[31m-O3\r\n\n") == "a.c:1: error\ncc -O3"
    assert lines("x\n" * 100).split("\n")[MOST_LINES - 1 :] == [" ".join("x" * (101 - MOST_LINES))]


@given(st.text())
def test_words_are_printable(content):
    assert all(character.isprintable() for character in words(content))


def test_plain_is_ascii():
    plain = Look(plain=True)
    assert (plain.dot + plain.bar + plain.rule + plain.text("5 µs").plain).isascii()
    assert Look(plain=False).text("5 µs").plain == "5 µs"


def test_every_verdict_has_a_style():
    assert set(VERDICT_STYLES) == set(Verdict)
