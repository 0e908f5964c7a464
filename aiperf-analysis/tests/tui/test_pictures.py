"""Pictures as lines of characters: every kind stays within its width, and shows what it has to show."""

import math

import pytest
from attrs import evolve

from aiperf_analysis.sparkline import HEIGHT, MARGIN, WIDTH, picture, sparkline
from aiperf_analysis.tui.pictures import drawn, histogram
from aiperf_core.report.result import Axis, Drawing, Figure, Point, Series, Span, counted


def point(label, x, y=1.0, width=0.1):
    return Point(label=label, x=Figure(value=x, low=x * (1 - width), high=x * (1 + width), unit="s"), y=counted(y, "B"))


def drawing(kind, points, *, log=False, spans=()):
    return Drawing(
        name="d", title="D", kind=kind, message="m", x=Axis(title="time", unit="s", log=log),
        y=Axis(title="memory", unit="B"), series=[Series(name="s", points=points)], spans=list(spans),
    )  # fmt: skip


def test_a_sparkline_has_the_course():
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, 1, 9, 9], 2) == "▁█"
    assert sparkline([5, 5], 10) == "▄▄"
    assert sparkline([], 10) == ""
    assert sparkline([1, 2, 3], 3, plain=True).isascii()


def test_noise_is_a_flat_line_and_a_step_is_none():
    for values, share in (([1.00, 1.01, 0.99], 0.1), ([1.0, 1.0, 2.0], 1.0)):
        line, dot = picture(values, "time").shapes
        heights = [y for _, y in line.points]
        assert max(heights) - min(heights) == pytest.approx(share * (HEIGHT - 2 * MARGIN))
        assert (dot.x, dot.y) == line.points[-1]
        assert line.points[0][0] == MARGIN
        assert line.points[-1][0] == WIDTH - MARGIN


def test_a_histogram_has_the_shares():
    assert histogram([0, 0.25, 0.5, 1], 2) == ["   █", " ▄██"]
    assert histogram([1], 1, plain=True) == ["@"]


@pytest.mark.parametrize("kind", ["intervals", "lines", "scatter", "waterfall", "bars", "flame", "timeline"])
@pytest.mark.parametrize("width", [20, 76, 196])
@pytest.mark.parametrize("plain", [True, False])
def test_every_kind_stays_within_its_width(kind, width, plain):
    points = [point("[red]a" * 20, 1e-3), point("b\x1b[31m", 5.0), point("c", 1e-3)]
    spans = [Span(label="k", lane="GPU 0" * 10, start=0.0, length=1.0, kind="compute"),
             Span(label="c", lane="GPU 1", start=1.0, length=3.0, kind="copy")]  # fmt: skip
    for log in (True, False):
        lines = drawn(drawing(kind, points, log=log, spans=spans), width, 10, plain=plain)
        assert all(len(line) <= width for line in lines if not line.startswith(("across", "[red]a"))) or width == 20
        assert not any("\x1b" in line for line in lines)
        assert not plain or all(line.isascii() or "µ" in line for line in lines)


@pytest.mark.parametrize("kind", ["intervals", "lines", "flame"])
def test_a_picture_without_points_says_so(kind):
    assert drawn(drawing(kind, []), 76, 10)[-1] in ("no points", "no spans")


def test_intervals_are_drawn_on_a_common_axis():
    lines = drawn(drawing("intervals", [point("a", 1.0, width=0), point("b", 2.0, width=0), point("c", 3.0)]), 60, 10)
    assert lines[3].index("●") < lines[4].index("●") < lines[5].index("●")
    assert "─" in lines[5]
    assert "─" not in lines[3]
    assert lines[-1] == "across: time"


def test_a_plane_has_marks_whiskers_and_ends():
    lines = drawn(drawing("scatter", [point("a", 1e-3), point("b", 2e-3, 3.0)]), 60, 8)
    assert lines[3].startswith("3 B │")
    assert "o" in lines[3]
    assert "─o─" in lines[10]
    assert "900 µs" in lines[12]
    assert "2.20 ms" in lines[12]


def test_values_that_no_axis_has_are_left_out():
    points = [
        point("a", 1.0),
        Point(label="n", x=Figure(value=None), y=counted(1)),
        point("z", 0.0),
        point("i", math.inf),
    ]
    marks = "".join(drawn(drawing("scatter", points, log=True), 60, 8)[3:11]).count("o")
    assert marks == 1


def test_lanes_show_what_takes_most_of_a_cell():
    spans = [Span(label="k", lane="a", start=0.0, length=5.0, kind="compute"),
             Span(label="c", lane="a", start=5.0, length=5.0, kind="communication")]  # fmt: skip
    line = drawn(drawing("timeline", [], spans=spans), 30, 8)[3]
    assert abs(line.count("#") - line.count("~")) <= 1
    assert line.count("#") > 5


def test_a_line_joins_its_points_and_a_level_has_no_marks():
    level = [Point(label="", x=counted(x, "count"), y=counted(y, "B"), mark="fit") for x, y in
             ((0.0, 1.0), (5.0, 1.0), (5.0, 3.0), (10.0, 3.0))]  # fmt: skip
    runs = [Point(label="", x=counted(x, "count"), y=counted(y, "B")) for x, y in ((0.0, 1.0), (10.0, 3.0))]
    found = evolve(drawing("lines", []), series=[Series(name="runs", points=runs),
                                                 Series(name="level", points=level, joined=True)])  # fmt: skip
    lines = drawn(found, 40, 5)
    canvas = [line.partition("│")[2].rstrip() for line in lines[3:8]]
    assert canvas[0].endswith("·o")
    assert canvas[0].count("·") == len(canvas[0].strip()) - 1
    assert canvas[-1].startswith("o·")
    assert [line.strip() for line in canvas[1:-1]] == ["·"] * 3
    assert lines[-2:] == ["o runs", "· level"]
