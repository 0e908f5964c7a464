import attrs
import pytest

from aiperf_core.measurements import Samples
from aiperf_core.report import samples
from aiperf_core.results import example


def result(times, rounds=None, blocks=None, calls=1, throttled=None, **changes):
    count = len(times)
    taken = Samples(
        round=rounds or [0] * count,
        block=blocks or [index // 2 for index in range(count)],
        device_s=times,
        wall_s=[None] * count,
        calls=[calls] * count,
        throttled=throttled or [False] * count,
    )
    row = attrs.evolve(example.rows()[0], samples=taken)
    return attrs.evolve(example.result(), rows=[row], **changes)


def one(*arguments, **keywords):
    (found,) = samples.of_rows(result(*arguments, **keywords))
    return found


def test_times_are_of_one_call_without_the_clock():
    found = one([1e-3] * 10, calls=4, clock_overhead_s=2e-4)
    assert found.times == pytest.approx([2e-4] * 10)
    assert found.median == pytest.approx(2e-4)


def test_samples_by_another_clock_are_left_out():
    found = one([1e-3, None] * 10)
    assert len(found.times) == 10
    assert samples.of_rows(result([1e-3, None] * 10, clock="wall")) == []


def test_one_sample_is_enough():
    assert len(one([1e-3]).times) == 1
    assert samples.of_rows(result([])) == []
    assert samples.of_rows(result([0.0, 1e10])) == []


def test_columns_that_do_not_fit_together():
    assert samples.of_rows(result([1e-3] * 20, rounds=[0] * 19)) == []


def test_a_range_holds_all_samples_but_those_that_would_flatten_the_rest():
    assert samples.strip_range(one([1.0, 1.1, 1.2, 1.3])) == (1.0, 1.3)
    times = [1.0 + 0.001 * index for index in range(40)]
    assert samples.strip_range(one([*times, 1.05])) == (1.0, 1.05)
    assert samples.strip_range(one([*times, 9.0])) == (1.0, pytest.approx(1.039))
    assert samples.strip_range(one([1.0] * 9)) == pytest.approx((0.998, 1.002))


def test_the_shares_of_samples_up_to_a_time():
    assert samples.shares(one([4.0, 1.0, 2.0, 3.0]).times) == [
        (1.0, 0.0),
        (1.0, 25.0),
        (2.0, 50.0),
        (3.0, 75.0),
        (4.0, 100.0),
    ]
    many = samples.shares(one([float(time) for time in range(1, 1001)]).times)
    assert len(many) <= samples.MOST_SHARES + 1
    assert many[-1] == (1000.0, 100.0)
    assert all(share == pytest.approx(time / 10) for time, share in many[1:])


def test_the_shares_of_each_round():
    found = one([1.0] * 20 + [1.1] * 21, rounds=[0] * 20 + [1] * 21)
    assert [shares[-1] for shares in samples.shares_of_rounds(found)] == [(1.0, 100.0), (1.1, 100.0)]


def test_a_series_has_the_medians_of_blocks():
    found = one(
        [1.0, 1.0, 1.1, 1.3, 1.0, 9.0, 1.0, 1.0, 1.0],
        rounds=[0, 0, 0, 0, 0, 1, 1, 1, 1],
        blocks=[2, 2, 7, 7, 7, 12, 12, 12, 12],
        throttled=[False, False, False, True, False, False, False, False, False],
    )
    points = samples.series(found)
    assert [(point.block, point.round, point.throttled) for point in points] == [
        (2, 0, False),
        (7, 0, True),
        (12, 1, False),
    ]
    assert [point.deviation for point in points] == pytest.approx([0, 0.1, 0])


def test_many_blocks_are_put_together():
    found = one([1.0 + index // 1000 for index in range(2000)])
    points = samples.series(found)
    assert len(points) <= samples.MOST_POINTS
    assert points[0].block == 0
    assert points[-1].block > 900
    assert points[0].deviation < points[-1].deviation
