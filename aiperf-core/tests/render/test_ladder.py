"""The ladder of a target: what stands in the picture, and where."""

import pytest
from text_boxes import boxes_of

from aiperf_core.measurements import Estimate
from aiperf_core.render import ladder, svg
from aiperf_core.render.ladder import Rung
from aiperf_core.render.svg import Dot, Path, Text

BASE = Rung(name="naive", role="baseline", ratio=Estimate(1.0, 1.0, 1.0))
SLOW = Rung(name="permuted", role="variant", ratio=Estimate(0.25, 0.24, 0.26), sol=0.022)
FAST = Rung(name="wide", role="variant", ratio=Estimate(10.0, 9.0, 11.0), sol=0.94)
YARD = Rung(name="torch", role="yardstick", ratio=Estimate(9.5, 9.4, 9.6))
LATER = Rung(name="bulk", role="variant")


def drawn(*rungs, metric="speedup"):
    return ladder.draw(rungs, metric, "ch07.memory_access on nvidia-h200-x1")


def texts(picture):
    return [shape.content for shape in picture.shapes if isinstance(shape, Text)]


def test_each_rung_has_its_figures_in_words():
    found = texts(drawn(BASE, SLOW, FAST, YARD, LATER))
    assert found[-10:] == [
        *("naive", "baseline", "permuted", "0.250x [0.240, 0.260], SOL 2.2 %", "wide", "10.0x [9.0, 11.0], SOL 94 %"),
        *("torch", "yardstick, 9.50x [9.40, 9.60]", "bulk", "no stored figure"),
    ]
    assert "speedup over naive, logarithmic" in found


def test_places_follow_the_figures():
    shapes = drawn(BASE, SLOW, FAST, YARD).shapes
    marks = {shape.title.partition(":")[0]: shape for shape in shapes if getattr(shape, "title", "")}
    x = {name: shape.x if isinstance(shape, Dot) else shape.points[0][0] for name, shape in marks.items()}
    assert x["permuted"] < x["naive"] < x["torch"] < x["wide"]
    (whisker,) = [shape for shape in shapes if isinstance(shape, Path) and shape.kind == "whisker s1"]
    assert whisker.points[0][0] < x["wide"] < whisker.points[1][0]
    assert all(0 <= at <= ladder.WIDE for at in x.values())


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (Estimate(1.56, 1.55, 1.57), ["1x", "1.2x", "1.4x", "1.6x"]),
        (Estimate(10.0, 9.0, 11.0), ["1x", "2x", "5x", "10x"]),
        (Estimate(563.0, 560.0, 566.0), ["1x", "10x", "100x"]),
    ],
)
def test_the_axis_has_round_values(ratio, expected):
    shapes = drawn(BASE, Rung(name="wide", role="variant", ratio=ratio)).shapes
    assert [shape.content for shape in shapes if shape.kind == "tick"] == expected


def test_kinds_are_told_apart():
    shapes = drawn(BASE, SLOW, FAST, YARD, LATER).shapes
    kinds = [shape.kind for shape in shapes if shape.kind.startswith("mark")]
    assert kinds == ["mark hollow s9", "mark s0", "mark s1", "mark open s2"]
    assert [shape.content for shape in shapes if shape.kind == "strong"] == ["wide"]


def test_no_variant_is_the_best_that_is_not_above_the_baseline():
    shapes = drawn(BASE, SLOW, YARD, Rung(name="same", role="variant", ratio=Estimate(1.01, 0.99, 1.02))).shapes
    assert [shape.content for shape in shapes if shape.kind == "strong"] == []


def test_memory_has_its_own_title():
    assert "peak memory divided into that of naive, logarithmic" in texts(drawn(BASE, FAST, metric="memory"))


@pytest.mark.parametrize("name", ["a" * 80, "<script>&"])
def test_text_stays_within_the_picture(name):
    rung = Rung(name=name, role="yardstick", ratio=Estimate(183.6, 183.4, 1839.0), sol=0.5)
    picture = ladder.draw([BASE, rung], "speedup", f"{name} on {name}")
    for text, box in boxes_of(picture):
        assert box.left >= 0, text
        assert box.right <= picture.width, text
        assert box.bottom >= 0, text
        assert box.top <= picture.height, text
    assert "<script" not in svg.markup(picture)
