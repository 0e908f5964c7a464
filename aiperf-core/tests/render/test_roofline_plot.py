"""The picture of a roofline: what stands in it, and where."""

import re
from itertools import combinations

import attrs
import pytest
from text_boxes import boxes_of

from aiperf_core.render import layout, roofline_plot
from aiperf_core.render.roofline import roofline as collect
from aiperf_core.render.svg import Text, markup
from aiperf_core.results import example
from aiperf_core.results.models import DISBELIEVED


def panel(*results):
    (found,) = collect(results or [example.result()], example.manifest()).panels
    return found


def many(count, rows=5):
    """Results at different places of the plane."""
    made = example.result()
    believed = [row for row in made.rows if row.verdict not in DISBELIEVED]
    return [
        attrs.evolve(
            made,
            target=f"ch07.t{index}",
            problem=attrs.evolve(made.problem, flops=made.problem.flops * 2**index),
            rows=believed[:rows],
        )
        for index in range(count)
    ]


def marks(svg):
    return re.findall(r'class="(mark [^"]*)" [^>]*>(?=</g>)', svg)


def texts(picture, kind):
    return [shape for shape in picture.shapes if isinstance(shape, Text) and kind in shape.kind.split()]


def test_one_target():
    svg = markup(roofline_plot.draw([panel()]))
    assert re.findall(r'<text class="label[^>]*>([^<]*)<', svg) == [
        "NVIDIA H200, ceilings of 2026-11-20",
        "copy 4.34 TB/s",
        "fp32 59.0 TFLOP/s",
        "strided 9.5 %",
        "coalesced 76 %",
        "wide 82 %",
        "prefetched 9.5 %",
        "memcpy 90 %",
        "baseline",
        "variant",
        "best variant",
        "yardstick",
    ]
    assert re.findall(r'<text class="note"[^>]*>([^<]*)<', svg) == [
        "arithmetic intensity, FLOP per byte that must be moved",
        "FLOP/s",
    ]
    assert marks(svg) == [
        "mark hollow s9",
        "mark s0",
        "mark s1",
        "mark s2",
        "mark open s6",
    ]


def test_several_targets_are_told_apart_by_colour():
    svg = markup(roofline_plot.draw([panel(*many(2, rows=2))]))
    assert marks(svg) == ["mark hollow s0", "mark s0", "mark hollow s1", "mark s1"]
    assert svg.count('<path class="mark s0"') == 2, "the best of its target and the entry of the legend"
    assert re.findall(r'<text class="label[^>]*>([^<]*)<', svg)[-4:] == [
        "baseline",
        "best variant",
        "ch07.t0",
        "ch07.t1",
    ]


def test_with_more_targets_than_colours_names_have_their_target():
    found = roofline_plot.draw([panel(*many(11, rows=2))])
    assert "t10:coalesced 76 %" in [text.content for text in texts(found, "label")]
    assert texts(found, "label")[-1].content == "best variant"


@pytest.mark.parametrize(
    ("targets", "named"),
    [(4, 20), (5, 10), (12, 24), (13, 13), (25, 0)],  # all; baselines and the best; the best alone; no mark
)
def test_of_many_marks_some_have_names(targets, named):
    found = panel(*many(targets))
    assert len(found.marks) == 5 * targets
    assert len(roofline_plot.named(found)) == named
    assert len(marks(markup(roofline_plot.draw([found])))) == 5 * targets


def test_a_narrow_picture_names_fewer_marks_and_draws_all():
    found = panel(*many(2))
    narrow = roofline_plot.draw([found], wide=layout.NARROW)
    assert len(marks(markup(narrow))) == 10
    assert len(roofline_plot.named(found)) == 10
    names = [shape.content for shape in texts(narrow, "label") if shape.content.endswith(" %")]
    assert len(names) == 2, "the best of each target"


@pytest.mark.parametrize(
    ("count", "wide"),
    [(1, layout.WIDE), (3, layout.WIDE), (8, layout.WIDE), (1, layout.NARROW)],
)
def test_words_lie_within_the_picture_and_cover_none_another(count, wide):
    found = roofline_plot.draw([panel(*many(count, rows=3))], "a title " * 20, wide)
    assert found.width == wide
    boxes = boxes_of(found)
    for content, box in boxes:
        assert box.left >= 0, content
        assert box.right <= found.width, content
        assert box.bottom >= 0, content
        assert box.top <= found.height, content
    covered = [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlap(b) > 4]
    assert covered == []


@pytest.mark.parametrize("wide", [layout.WIDE, layout.NARROW])
def test_a_long_name_is_shortened_and_keeps_its_fraction(wide):
    found = panel()
    long = attrs.evolve(found, marks=tuple(attrs.evolve(mark, name="m" * 60) for mark in found.marks))
    drawn = roofline_plot.draw([long], wide=wide)
    for text, box in boxes_of(drawn):
        assert box.left >= 0, text
        assert box.right <= wide, text
    names = [shape.content for shape in texts(drawn, "label") if shape.content.startswith("mmm")]
    assert len(names) == len(found.marks)
    assert all(re.fullmatch(r"m+… \d[\d.]* %", name) for name in names)


def test_the_alternative_text_names_the_first_marks():
    assert roofline_plot.draw([panel()]).title == "roofline of NVIDIA H200"
    assert roofline_plot.draw([panel()]).alt.startswith(
        "ch07.memory_access:strided 103 GFLOP/s at 0.25 FLOP/B, SOL 9.5 %; "
    )
    assert roofline_plot.draw([panel(*many(5))]).alt.endswith("; and 1 more")


def test_devices_stand_below_each_other_under_a_title():
    alone = roofline_plot.draw([panel()])
    both = roofline_plot.draw([panel(), attrs.evolve(panel(), device="A CPU")], "a run")
    assert both.height == pytest.approx(40 + 2 * alone.height)
    (title,) = texts(both, "title")
    first, second = (text for text in texts(both, "label") if "ceilings of" in text.content)
    assert [text.content for text in (title, first, second)] == [
        "a run",
        "NVIDIA H200, ceilings of 2026-11-20",
        "A CPU, ceilings of 2026-11-20",
    ]
    assert [text.y for text in (first, second)] == pytest.approx([58, 58 + alone.height])
