"""The picture of a sweep: its axes, the places of its marks, and its words."""

import itertools
import re

import attrs
import pytest
import swept

from aiperf_core.measurements import Estimate
from aiperf_core.render import svg, sweep_plot
from aiperf_core.results.models import Verdict
from aiperf_core.results.sweeps import sweeps


def scaled(result, factor):
    """The result with all times multiplied."""

    def row(one):
        if one.time_s is None:
            return one
        time = Estimate(*(getattr(one.time_s, end) * factor for end in ("value", "low", "high")))
        light = one.speed_of_light and attrs.evolve(one.speed_of_light, fraction=one.speed_of_light.fraction / factor)
        return attrs.evolve(one, time_s=time, speed_of_light=light)

    return attrs.evolve(result, rows=[row(one) for one in result.rows])


def sweep(*sizes, **also):
    (found,) = sweeps([scaled(swept.point(n=n, **also), n / sizes[0]) for n in sizes])
    return found


def texts(picture):
    return [shape for shape in picture.shapes if isinstance(shape, svg.Text)]


def marks(picture, name):
    """The places of an implementation's marks in each plane, from left to right as they are drawn."""
    return [place(shape) for shape in picture.shapes if getattr(shape, "title", "").startswith(f"{name} at ")]


def place(shape):
    if isinstance(shape, svg.Dot):
        return shape.x, shape.y
    xs, ys = zip(*shape.points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def test_titles_axes_units_and_the_legend():
    picture = sweep_plot.draw([sweep(10**6, 10**7, 10**8)], "a machine")
    written = [one.content for one in texts(picture)]
    assert written[:2] == [
        "ch07.memory_access: time and fraction of SOL against n",
        "cuda, tier quick, bars: 95 % intervals, a machine",
    ]
    assert "time of a call (log scale)" in written
    assert "fraction of SOL" in written
    assert written.count("n (log scale)") == 2
    assert written.count("1e6") == written.count("1e7") == written.count("1e8") == 2
    assert "10 ms" in written
    assert any(one.endswith(" %") for one in written)
    # The legend has what is drawn, once, and nothing that is left out.
    assert [written.count(name) for name in ("strided", "coalesced", "remembered")] == [1, 1, 0]


def test_a_short_range_has_linear_axes():
    picture = sweep_plot.draw([sweep(4, 5, 6)])
    written = [one.content for one in texts(picture)]
    assert written.count("n") == 2
    assert "time of a call" in written
    assert not any("log scale" in one for one in written)


@pytest.mark.parametrize("sizes", [(4, 5, 6), (10**4, 10**6, 10**7), (0, 1, 100)])
def test_larger_values_and_longer_times_stand_further_out(sizes):
    (found,) = sweeps([scaled(swept.point(n=n), n + 1) for n in sizes])
    picture = sweep_plot.draw([found])
    for name in ("strided", "coalesced"):
        places = marks(picture, name)
        time, fraction = places[: len(sizes)], places[len(sizes) :]
        assert [x for x, _ in time] == sorted({x for x, _ in time})
        # y counts downwards: longer times stand higher, and so smaller fractions lower.
        assert [y for _, y in time] == sorted({y for _, y in time}, reverse=True)
        assert [y for _, y in fraction] == sorted({y for _, y in fraction})
    slower, faster = (marks(picture, name)[0][1] for name in ("strided", "coalesced"))
    assert slower < faster


def test_bars_are_the_intervals():
    (found,) = sweeps([swept.point(n=4), swept.point(n=5)])
    wide = Estimate(4e-3, 2e-3, 8e-3)
    first = found.results[0]
    rows = [attrs.evolve(one, time_s=wide) if one.name == "strided" else one for one in first.rows]
    found.points[0] = (found.points[0][0], attrs.evolve(first, rows=rows))
    picture = sweep_plot.draw([found])
    bars = [shape for shape in picture.shapes if shape.kind == "whisker s0"]
    (x1, low), (x2, high) = bars[0].points
    _, value = marks(picture, "strided")[0]
    assert x1 == x2
    # The axis is linear: the middle of 2 and 8 is 5, below which 4 lies.
    assert (low - value) * 2 == pytest.approx(value - high, rel=1e-6)


@pytest.mark.parametrize(
    "found",
    [
        sweep(10**6, 10**7, 10**8),
        sweep(1, 3, 10**15 + 1),
        sweep(*range(123456, 123520)),
        sweep(4, 5, a_parameter_with_a_very_long_name_that_is_longer_than_most=123456789),
    ],
)
@pytest.mark.parametrize("name", ["ch07.memory_access", "acme." + "a_target_with_a_long_name" * 8])
def test_no_text_leaves_the_picture_or_covers_another(found, name):
    found = attrs.evolve(found, target=name)
    picture = sweep_plot.draw([found, found], "a machine with a name " * 12)
    boxes = []
    for one in texts(picture):
        size = {"title": 15, "tick": 10, "note": 10}.get(one.kind, 11)
        width = svg.text_width(one.content, size)
        left = one.x - {"start": 0, "middle": width / 2, "end": width}[one.anchor]
        assert 0 <= left <= picture.width - width, one
        assert size <= one.y <= picture.height, one
        boxes.append((left, one.y - size * 0.8, left + width, one.y, one.content))
    for one, two in itertools.combinations(boxes, 2):
        apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
        assert apart, (one[4], two[4])


def test_a_point_that_is_not_believed_leaves_a_gap():
    points = [swept.point(n=n) for n in (1, 2, 4, 8, 16)]
    doubted = [
        attrs.evolve(row, verdict=Verdict.INVALID, reason="a reason", speedup=None) if row.name == "coalesced" else row
        for row in points[2].rows
    ]
    points[2] = attrs.evolve(points[2], rows=doubted)
    (found,) = sweeps([*points[:4], swept.failed(n=16)])
    picture = sweep_plot.draw([found])
    lines = [len(shape.points) for shape in picture.shapes if shape.kind == "course s1"]
    assert lines == [2, 1, 2, 1]
    assert [len(shape.points) for shape in picture.shapes if shape.kind == "course s0"] == [4, 4]
    assert [one for one in sweep_plot.left_out(found) if "remembered" not in one] == [
        "ch07.memory_access@n=4:coalesced: INVALID",
        "ch07.memory_access@n=16: FAILED",
    ]


def test_a_grid_has_a_row_of_planes_for_each_value_of_the_other_parameter():
    (found,) = sweeps([swept.point(m=m, n=n) for m in (2, 3) for n in (10, 20, 30)])
    picture = sweep_plot.draw([found])
    written = [one.content for one in texts(picture)]
    assert [one for one in written if one.startswith("m=")] == ["m=2", "m=3"]
    assert written.count("fraction of SOL") == 2
    assert len(marks(picture, "strided")) == 12


def test_without_a_speed_of_light_there_is_one_plane():
    points = [swept.point(n=n) for n in (4, 5)]
    dark = [attrs.evolve(one, rows=[attrs.evolve(row, speed_of_light=None) for row in one.rows]) for one in points]
    picture = sweep_plot.draw(sweeps(dark))
    written = [one.content for one in texts(picture)]
    assert written[0] == "ch07.memory_access: time against n"
    assert not any("SOL" in one for one in written)


def test_the_words_for_readers_who_do_not_see_it():
    picture = sweep_plot.draw([sweep(10**6, 10**8)])
    assert re.fullmatch(
        r"sweep of ch07\.memory_access over n: strided [\d.]+ ms at n=1e6 and \d+ ms at n=1e8; "
        r"coalesced [\d.]+ ms at n=1e6 and \d+ ms at n=1e8\.",
        picture.alt,
    )
