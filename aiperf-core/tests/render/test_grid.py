from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from aiperf_core.render.grid import Column, draw, fold, heading, total, widths

COLUMNS = [Column(("name",)), Column(("median", "interval"), right=True)]
LINES = [[[Text("wide")], [Text("5.2 ms"), Text("[5.1, 5.3]")]], [[Text("größer"), Text("naive")], [Text("µ")]]]


def test_columns_are_aligned():
    wide = widths(COLUMNS, LINES)
    assert wide == [6, 10]
    assert total(COLUMNS, LINES) == 18
    drawn = [text.plain for line in [heading(COLUMNS), *LINES] for text in draw(COLUMNS, line, wide)]
    assert drawn == [
        "name        median",
        "          interval",
        "wide        5.2 ms",
        "        [5.1, 5.3]",
        "größer           µ",
        "naive",
    ]


def test_wide_characters_count_twice():
    line = [[Text("漢字")], [Text("x")]]
    assert widths([Column(("a",)), Column(("b",))], [line]) == [4, 1]


def test_names_are_folded_after_underscores():
    assert fold("wide", 10) == ["wide"]
    assert fold("tensor_memory_accelerated", 16) == ["tensor_memory_", "accelerated"]
    assert fold("unbreakablename", 6) == ["unbrea", "kablen", "ame"]
    assert fold("", 6) == [""]


@given(st.text(alphabet="ab_", max_size=60), st.integers(1, 30))
def test_folding_loses_nothing(name, width):
    lines = fold(name, width)
    assert "".join(lines) == name
    assert all(len(line) <= width for line in lines)
