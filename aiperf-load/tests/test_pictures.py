"""The curves of a sweep: what is drawn, and in which colours."""

import re

import pytest
from load_points import point

from aiperf_core.errors import AiperfError
from aiperf_core.render import svg
from aiperf_load import pictures, tables
from aiperf_load.intervals import Figure
from aiperf_load.records import Knee, LoadResult


def drawn(*points, capacity=None):
    """The picture of these points."""
    value = Figure(value=capacity, low=capacity, high=capacity)
    knee = Knee(capacity_per_s=value, met=0.99, rate_per_s=Figure(reason="too few")) if capacity else None
    return pictures.picture(LoadResult(mode="sweep", points=list(points), knee=knee), "server")


def texts(picture):
    return [one for one in picture.shapes if isinstance(one, svg.Text)]


def marks(picture, kind):
    return [one for one in picture.shapes if not isinstance(one, svg.Text) and one.kind == kind and one.title]


def test_a_point_that_does_not_count_has_a_form_and_a_colour_of_its_own():
    picture = drawn(point(20), point(40), point(80, state="OVERLOAD"), point(160, trusted=False))
    assert len(marks(picture, "mark s0")) == len(marks(picture, "mark s2")) == 2
    # Of each of the two: the median, the tail, and the tokens of a user.
    wrong = marks(picture, f"mark {pictures.WRONG}")
    assert len(wrong) == 6
    assert {len(one.points) for one in wrong} == {4}
    # A class without a colour would be black, also on a black page.
    page = svg.document(picture)
    classes = {word for found in re.findall(r'class="([^"]*)"', page) for word in found.split()}
    styled = set(re.findall(r"^svg \.([\w-]+) ", page, re.MULTILINE))
    assert classes <= styled


@pytest.mark.parametrize(("rates", "tail"), [((20, 40, 80), "p95"), ((5, 12, 15), "p90"), ((110, 120, 4), "p99"),
                                             ((2, 3, 4), "p99")])  # fmt: skip
def test_the_upper_line_is_the_highest_percentile_that_half_of_the_points_have(rates, tail):
    points = [point(rate) for rate in rates]
    assert pictures.tail_of(points) == tail
    assert tail in [one.content for one in texts(drawn(*points))]


@pytest.mark.parametrize(("capacity", "anchor"), [(21.0, "start"), (79.0, "end")])
def test_the_capacity_is_named_where_there_is_room(capacity, anchor):
    picture = drawn(point(20), point(40), point(80), capacity=capacity)
    (name,) = [one for one in texts(picture) if one.content.startswith("capacity")]
    assert (name.content, name.anchor) == (f"capacity {capacity:g}/s", anchor)


def test_every_text_lies_within_the_picture():
    picture = drawn(*(point(rate) for rate in (10, 20, 40, 80, 160)), capacity=150.0)
    for one in texts(picture):
        width = svg.text_width(one.content, 15.0 if one.kind == "title" else 11.0)
        begin = one.x - {"start": 0.0, "middle": width / 2, "end": width}[one.anchor or "start"]
        assert begin >= 0, one
        assert begin + width <= picture.width, one
        assert 0 < one.y < picture.height, one


def test_a_curve_needs_two_points():
    with pytest.raises(
        AiperfError, match=r"a curve needs two points; this load has 1\. Measure some: aiperf load sweep"
    ):
        drawn(point(20))


def test_a_figure_in_a_table_has_no_exponent() -> None:
    figure = Figure(value=149_617.0, low=97_787.0, high=253_553.0)
    assert tables.plain(figure) == "149,617 [97,787, 253,553]"
    assert tables.plain(Figure(value=0.0000123, low=None, high=None)) == "0.00001230"
    assert tables.time(Figure(value=0.0361, low=0.0262, high=None)) == "36.1 ms [26.2, ?]"
