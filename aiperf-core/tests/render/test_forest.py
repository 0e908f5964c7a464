import math
import xml.etree.ElementTree as ET

import pytest

from aiperf_core.measurements import Estimate
from aiperf_core.render import forest, svg

HOSTILE = ["<script>alert(1)</script>", "\x1b[31mred", "\u202egnp.exe", "שלום", "x" * 10_000, "../../etc"]


def rows(count=3):
    words = ("FASTER", "SAME", "SLOWER")
    values = (2.0, 1.0, 0.5)
    return [
        (f"row{at}", Estimate(values[at % 3], 0.98 * values[at % 3], 1.02 * values[at % 3]), words[at % 3], "/run/1")
        for at in range(count)
    ]


def texts(picture):
    return [one.content for one in picture.shapes if isinstance(one, svg.Text)]


@pytest.mark.parametrize("wide", [forest.NARROW, forest.WIDE])
def test_verdicts_have_a_form_and_a_word(wide):
    picture = forest.speedups(rows(), title="speedups", floor=0.01, wide=wide)
    marks = [one for one in picture.shapes if getattr(one, "href", "")]
    assert [one.kind for one in marks] == ["mark v-FASTER", "mark v-SAME", "mark v-SLOWER"]
    assert [len(one.points) for one in marks] == [3, 4, 3]
    assert marks[0].points[0][1] < marks[0].points[1][1]  # upwards
    assert marks[2].points[0][1] > marks[2].points[1][1]  # downwards
    assert [one.rpartition(" ")[2] for one in texts(picture) if "[" in one] == ["FASTER", "SAME", "SLOWER"]


def test_intervals_have_the_colour_of_their_verdict():
    picture = forest.speedups(rows(), title="t", floor=0.01)
    whiskers = [one for one in picture.shapes if one.kind.startswith("whisker")]
    assert [one.kind for one in whiskers] == ["whisker v-FASTER", "whisker v-SAME", "whisker v-SLOWER"]
    assert [svg.properties(one)["stroke"] for one in whiskers] == [
        svg.PALETTE[name] for name in ("good", "quiet", "warn")
    ]


def test_the_message_is_made_from_the_figures():
    picture = forest.speedups([*rows(3), ("far", Estimate(9.0, 8.9, 9.1), "FASTER", "")], title="t", floor=0.01)
    assert picture.alt == "2 FASTER, 1 SAME, 1 SLOWER; farthest from 1x: far, 9.00x [8.90, 9.10]"


def test_the_floor_is_a_band_as_wide_as_it_is():
    narrow, broad = (
        next(one for one in forest.speedups(rows(), title="t", floor=floor).shapes if one.kind == "floor")
        for floor in (0.01, 0.05)
    )
    assert broad.points[1][0] - broad.points[0][0] > 3 * (narrow.points[1][0] - narrow.points[0][0])


@pytest.mark.parametrize("wide", [forest.NARROW, forest.WIDE])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_inside_and_escaped(wide, name):
    picture = forest.speedups([(name, Estimate(1.5, 1.4, 1.6), "FASTER", "/run/1")], title=name, floor=0.01, wide=wide)
    text = svg.document(picture)
    ET.fromstring(text)
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    for one in picture.shapes:
        if isinstance(one, svg.Text):
            width = svg.text_width(one.content, 10 if one.kind in ("tick", "note") else 11)
            left = one.x - {"start": 0.0, "middle": width / 2, "end": width}[one.anchor]
            assert -1 <= left <= left + width <= wide + 1, one


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e-300, 1e300])
def test_figures_without_a_place_are_not_drawn_as_nan(value):
    text = svg.document(forest.speedups([("a", Estimate(value, value, value), "SAME", "")], title="t", floor=0.01))
    assert ">nan<" not in text
    assert '"nan' not in text
    ET.fromstring(text)


def test_of_many_lines_those_farthest_from_one_are_kept():
    many = [*rows(10_000), ("far", Estimate(99.0, 98.0, 100.0), "FASTER", "")]
    picture = forest.speedups(many, title="t", floor=0.01)
    assert "far" in texts(picture)
    assert "9,941 more lines are not drawn" in texts(picture)


def test_nothing_to_draw_says_so():
    picture = forest.speedups([], title="t", floor=0.01)
    assert "no figures to draw" in texts(picture)
    assert picture.alt == "no figures to draw"
