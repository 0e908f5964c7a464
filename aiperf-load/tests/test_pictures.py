"""The curves of a sweep: what is drawn, and in which colours."""

import pytest
from attrs import evolve
from load_points import point

from aiperf_core.errors import AiperfError
from aiperf_core.report.picture import render_svg
from aiperf_load import pictures, tables
from aiperf_load.intervals import Figure
from aiperf_load.records import Knee, LoadResult
from aiperf_load.spec import Limits


def drawn(*points, capacity=None):
    """The drawings of these points: latency, and throughput."""
    value = Figure(value=capacity, low=capacity, high=capacity)
    knee = Knee(capacity_per_s=value, met=0.99, rate_per_s=Figure(reason="too few")) if capacity else None
    return pictures.drawings(LoadResult(mode="sweep", points=list(points), knee=knee), "server")


def test_a_point_that_does_not_count_is_marked():
    latency, throughput = drawn(point(20), point(40), point(80, state="OVERLOAD"), point(160, trusted=False))
    assert [one.name for one in latency.series] == ["p50", "p95", "UNTRUSTED"]
    # Beyond the capacity, the tokens in all do not grow: a line through such points would go back and forth.
    assert [one.name for one in throughput.series] == ["loads", "UNTRUSTED", "OVERLOAD"]
    for series in (*latency.series, *throughput.series):
        assert series.joined == (series.name not in ("UNTRUSTED", "OVERLOAD"))
        marks = {"", "OVERLOAD"} if series in latency.series else {""}
        assert {each.mark for each in series.points} == (marks if series.joined else {series.name})
        assert all(each.x.value for each in series.points)
    assert [len(one.points) for one in latency.series] == [3, 3, 2]
    svg = render_svg(latency)
    assert (svg.count(">UNTRUSTED</text>"), svg.count(">OVERLOAD</text>")) == (1, 1)


def test_a_rate_that_was_repeated_has_one_mark():
    late = [evolve(point(rate, trusted=False), name=f"late{rate}") for rate in (40, 40, 80, 80)]
    points = [point(20), *late[:2], point(40), late[2], evolve(late[3], name="last"), point(160)]
    assert [one.name for one in pictures.accepted(points)] == ["p020", "p040", "last", "p160"]
    assert pictures.accepted([points[3], late[0]]) == [points[3]]
    assert [len(one.points) for one in drawn(*points)[1].series] == [3, 1]


def test_the_limit_of_the_ttft_is_a_line():
    points = [evolve(each, spec=evolve(each.spec, limits=Limits(ttft_s=0.2))) for each in (point(20), point(40))]
    latency, _ = drawn(*points)
    assert latency.series[-1].name == "limit 200 ms"
    assert [(each.x.value, each.y.value, each.mark) for each in latency.series[-1].points] == [
        (20.0, 0.2, "fit"),
        (40.0, 0.2, "fit"),
    ]
    assert ">limit 200 ms</text>" in render_svg(latency)


@pytest.mark.parametrize(("rates", "tail"), [((20, 40, 80), "p95"), ((5, 12, 15), "p90"), ((110, 120, 4), "p99"),
                                             ((2, 3, 4), "p99")])  # fmt: skip
def test_the_upper_line_is_the_highest_percentile_that_half_of_the_points_have(rates, tail):
    points = [point(rate) for rate in rates]
    assert pictures.tail_of(points) == tail
    assert [series.name for series in drawn(*points)[0].series] == ["p50", tail]


def test_the_capacity_is_named():
    latency, _ = drawn(point(20), point(40), point(80), capacity=21.0)
    assert latency.borders == {"capacity 21/s": 21.0}
    assert ">capacity 21/s</text>" in render_svg(latency)
    assert drawn(point(20), point(40))[0].borders == {}


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
