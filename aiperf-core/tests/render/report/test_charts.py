import re

import attrs
import numpy as np
import pytest

from aiperf_core.measurements import Estimate, Samples
from aiperf_core.render.report import charts
from aiperf_core.render.report.samples import of_rows
from aiperf_core.render.svg import markup
from aiperf_core.results import example


def result(medians, spreads=None, throttled=(), rounds=2):
    """Rows of a made-up result with 100 samples each, in blocks of five."""
    rows = []
    for index, median in enumerate(medians):
        noise = np.random.default_rng(index).normal(0, (spreads or [0.002] * len(medians))[index], 100)
        samples = Samples(
            round=[number * rounds // 100 for number in range(100)],
            block=[number // 5 * len(medians) + index for number in range(100)],
            device_s=[float(median * (1 + one)) for one in noise],
            calls=[1] * 100,
            throttled=[number // 5 in throttled for number in range(100)],
        )
        rows.append(attrs.evolve(example.rows()[index], name=f"row{index}", samples=samples, speed_of_light=None))
    return attrs.evolve(example.result(), rows=rows)


def pictures(*arguments, **keywords):
    rows = of_rows(result(*arguments, **keywords))
    return [markup(draw(rows, rows[1].row)) for draw in (charts.times, charts.spread, charts.course)]


def ticks(svg):
    return re.findall(r'<text class="tick"[^>]*>([^<]*)<', svg)


def test_times_that_are_near_start_at_zero():
    assert ticks(pictures([4e-3, 2e-3])[0])[0] == "0 ns"


def test_times_that_are_far_from_each_other_are_on_a_logarithmic_scale():
    assert ticks(pictures([4e-3, 2e-5])[0]) == ["30 µs", "100 µs", "300 µs", "1.0 ms", "3.0 ms"]


def test_the_time_of_light_is_drawn():
    found = result([4e-3, 2e-3])
    rows = [attrs.evolve(row, speed_of_light=example.rows()[0].speed_of_light) for row in found.rows]
    assert 'class="light"' in markup(charts.times(of_rows(attrs.evolve(found, rows=rows)), None))
    assert 'class="light"' not in pictures([4e-3, 2e-3])[0]


def test_every_row_has_its_lane_and_colour():
    for svg in pictures([4e-3, 2e-3]):
        assert re.findall(r'<text class="name"[^>]*>([^<]*)<', svg) == ["row0", "row1"]
        assert "baseline" in svg
        assert "best" in svg


def test_one_noisy_row_does_not_flatten_the_others():
    spread = pictures([4e-3] * 4, [0.002, 0.002, 0.002, 0.2])[1]
    assert max(abs(float(one.removesuffix(" %"))) for one in ticks(spread)) < 3
    assert re.search(r"100 samples, \d+ beyond", spread)


def test_rounds_are_divided_and_told_apart():
    _, spread, course = pictures([4e-3, 2e-3], rounds=3)
    assert spread.count('class="round') == 6
    assert course.count('class="divider"') == 2
    _, spread, course = pictures([4e-3, 2e-3], rounds=1)
    assert spread.count('class="round') == course.count('class="divider"') == 0


def test_clocks_that_were_held_down_are_marked():
    course = pictures([4e-3, 2e-3], throttled=(3, 4))[2]
    assert course.count('class="held"') == 4
    assert "clocks were held down in 4" in course
    assert "clocks were never seen held down" in pictures([4e-3, 2e-3])[2]


def test_strips_share_a_scale_with_1_on_it():
    estimates = [Estimate(8.0, 7.9, 8.1), Estimate(0.0, 0.0, 0.5)]
    scale = charts.speedup_scale(estimates)
    strips = [markup(charts.speedup_strip(one, scale, "FASTER")) for one in estimates]
    ones = [re.search(r'<path class="one" d="M([\d.]+) ', one)[1] for one in strips]
    assert ones[0] == ones[1]
    assert 'aria-label="speedup 8.00x [7.90, 8.10]"' in strips[0]
    assert charts.speedup_scale([])(1.0) == pytest.approx(75, abs=2)
