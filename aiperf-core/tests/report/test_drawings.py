"""Rows as drawings: the ladder and the sweep of a target, a roofline, and the pictures of samples."""

import attrs
import numpy as np
import pytest
import swept

from aiperf_core.measurements import Estimate, Samples
from aiperf_core.render.report import content
from aiperf_core.report import drawings, picture, roofline, sample_charts, svg
from aiperf_core.report.drawings import Rung
from aiperf_core.report.marks import colours
from aiperf_core.report.result import Origin, counted
from aiperf_core.results import example
from aiperf_core.results.models import Verdict
from aiperf_core.results.sweeps import sweeps
from aiperf_core.stats.best import best_variant

BASE = Rung(name="naive", role="baseline", ratio=Estimate(1.0, 1.0, 1.0))
SLOW = Rung(name="permuted", role="variant", ratio=Estimate(0.25, 0.24, 0.26), sol=0.022)
FAST = Rung(name="wide", role="variant", ratio=Estimate(10.0, 9.0, 11.0), sol=0.94)
YARD = Rung(name="torch", role="yardstick", ratio=Estimate(9.5, 9.4, 9.6))
LATER = Rung(name="bulk", role="variant")


def texts(drawing):
    return [shape.content for shape in picture.picture(drawing).shapes if isinstance(shape, svg.Text)]


def figures(drawing):
    """Name of each series, with its points as pairs of values."""
    return {series.name: [(point.x.value, point.y.value) for point in series.points] for series in drawing.series}


# --- ladder


def test_each_rung_has_its_figures():
    ladder = drawings.ladder([BASE, SLOW, FAST, YARD, LATER], "speedup", "a target")
    (series,) = ladder.series
    assert [point.mark for point in series.points] == ["baseline", "", "best", "yardstick"]
    assert ladder.message == (
        "speedup relative to the baseline: naive baseline, permuted 0.250x [0.240, 0.260], SOL 2.2 %, "
        "wide 10.0x [9.0, 11.0], SOL 94 %, torch yardstick, 9.50x [9.40, 9.60], bulk no stored figure"
    )
    written = texts(ladder)
    axis = "speedup over naive with 95 % intervals, logarithmic"
    for text in ("10.0x [9.0, 11.0], SOL 94 %, best", axis, "10x"):
        assert text in written
    assert "bulk" not in written


def test_an_interval_narrower_than_its_mark_has_ends_above_and_below_the_mark():
    thin = Rung(name="thin", role="variant", ratio=Estimate(10.0, 9.99, 10.01))
    made = picture.picture(drawings.ladder([BASE, thin], "speedup", "a target"))
    (mark,) = [shape for shape in made.shapes if getattr(shape, "title", "").startswith("thin:")]
    reach = [y for _, y in mark.points]
    ends = [
        [y for _, y in shape.points]
        for shape in made.shapes
        if shape.kind.startswith("whisker") and shape.points[0][0] == shape.points[1][0]
    ]
    assert len(ends) == 2
    assert all(min(end) < min(reach) and max(end) > max(reach) for end in ends)


def test_no_variant_is_the_best_that_is_not_above_the_baseline():
    same = Rung(name="same", role="variant", ratio=Estimate(1.01, 0.99, 1.02))
    ladder = drawings.ladder([BASE, SLOW, YARD, same], "memory", "a target")
    assert "best" not in [point.mark for point in ladder.series[0].points]
    assert ladder.x.title == "peak memory divided into that of naive with 95 % intervals, logarithmic"


# --- sweep


def sweep(*sizes, **also):
    (found,) = sweeps([swept.point(n=n, **also) for n in sizes])
    return found


def test_a_sweep_has_its_time_and_its_fraction_of_the_speed_of_light():
    time, light = drawings.of_sweep(sweep(10**6, 10**7, 10**8), "a machine")
    assert time.title == "ch07.memory_access: time of a call against n"
    assert time.x.title == "n, logarithmic (cuda, tier quick, a machine; bars: 95 % intervals)"
    assert time.x.places == {"1e6": 1e6, "1e7": 1e7, "1e8": 1e8}
    assert [series.name for series in time.series] == ["strided", "coalesced"]
    assert light.y.unit == "%"
    row = sweep(10**6).rows[0]
    point = time.series[0].points[0]
    assert (point.y.value, point.y.low, point.y.high) == (row.time_s.value, row.time_s.low, row.time_s.high)
    assert time.message.startswith(
        "sweep of ch07.memory_access over n: strided 4.00 ms at n=1e6 and 4.00 ms at n=1e8; "
    )


def of_fraction(fraction):
    """The drawings of a sweep whose rows reach this fraction of the speed of light; None for no speed of light."""

    def changed(row):
        light = row.speed_of_light and fraction and attrs.evolve(row.speed_of_light, fraction=fraction)
        return attrs.evolve(row, speed_of_light=light or None)

    points = [swept.point(n=n) for n in (4, 5)]
    (found,) = sweeps([attrs.evolve(each, rows=list(map(changed, each.rows))) for each in points])
    return drawings.of_sweep(found)


def test_the_speed_of_light_is_a_line_unless_all_rows_are_far_from_it():
    _, near = of_fraction(0.9)
    assert near.y.ends == (0.0, pytest.approx(106.0))
    assert figures(near)["speed of light"] == [(4, 100.0), (5, 100.0)]
    _, far = of_fraction(0.001)
    assert far.y.ends[1] < 100
    assert "speed of light" not in figures(far)
    assert len(of_fraction(None)) == 1


def test_a_point_that_is_not_believed_leaves_a_gap():
    points = [swept.point(n=n) for n in (1, 2, 4, 8, 16)]
    doubted = [
        attrs.evolve(row, verdict=Verdict.INVALID, reason="a reason", speedup=None) if row.name == "coalesced" else row
        for row in points[2].rows
    ]
    points[2] = attrs.evolve(points[2], rows=doubted)
    (found,) = sweeps([*points[:4], swept.failed(n=16)])
    time = drawings.of_sweep(found)[0]
    assert [value is None for _, value in figures(time)["coalesced"]] == [False, False, True, False, True]
    lines = [len(shape.points) for shape in picture.picture(time).shapes if shape.kind == "course s1"]
    assert lines == [2, 1]
    assert [row for row in drawings.left_out(found) if "remembered" not in row] == [
        "ch07.memory_access@n=4:coalesced: INVALID",
        "ch07.memory_access@n=16: FAILED",
    ]


def test_a_grid_has_drawings_for_each_value_of_the_other_parameter():
    (found,) = sweeps([swept.point(m=m, n=n) for m in (2, 3) for n in (10, 20, 30)])
    made = drawings.of_sweep(found)
    assert [drawing.title.partition(" at ")[2] for drawing in made] == ["m=2", "m=2", "m=3", "m=3"]
    assert len({drawing.x.ends for drawing in made}) == len({drawing.y.ends for drawing in made}) - 1 == 1


# --- ratios


@pytest.mark.parametrize(("count", "axes"), [(5, 1), (40, 2)])
def test_ratios_begin_with_the_largest_and_their_axis_is_above_and_of_many_also_below(count, axes):
    ratios = [(Origin("b", f"t{at}", "wide"), counted(1.5 + at), "FASTER") for at in range(count)]
    drawing = drawings.of_ratios("gains", "Gains", "m", "gain", ratios)
    assert [point.label for point in drawing.series[0].points] == [f"t{at}:wide" for at in reversed(range(count))]
    written = [shape for shape in picture.picture(drawing).shapes if isinstance(shape, svg.Text)]
    lanes = [shape.y for shape in written if shape.content.endswith(":wide")]
    titles = [shape.y for shape in written if shape.content == "gain, logarithmic"]
    ticks = [shape.y for shape in written if shape.content == "2x"]
    assert len(titles) == len(ticks) == axes
    assert titles[0] < ticks[0] < min(lanes)
    assert axes == 1 or titles[1] > ticks[1] > max(lanes)


@pytest.mark.parametrize(
    ("values", "log"), [([], False), ([1.0, 8.0], False), ([1.0, 8.1], True), ([0.0, 9.0], False), ([None, 2.0], False)]
)
def test_values_of_more_than_eight_times_have_a_logarithmic_axis(values, log):
    assert drawings.spans_decades(counted(value) for value in values) is log


# --- roofline


def test_a_roofline_has_its_roofs_and_names_what_it_can():
    problem = example.result().problem
    other = attrs.evolve(example.result(), target="ch07.dense", problem=attrs.evolve(problem, flops=16 * problem.flops))
    (panel,) = roofline.roofline([example.result(), other], example.manifest()).panels
    drawing = roofline.draw(panel, "run")
    assert drawing.title == "run on NVIDIA H200, ceilings of 2026-11-20"
    roofs = [series for series in drawing.series if series.joined]
    assert [point.label for series in roofs for point in series.points if point.label] == [
        "copy 4.34 TB/s",
        "fp32 matmul 59.0 TFLOP/s",
    ]
    written = texts(drawing)
    for text in ("1 memory_access:strided 9.5 %", "memory_access:wide 82 %", "copy 4.34 TB/s", "best variant"):
        assert text in written
    (memory, _) = roofs
    assert all(point.y.value / point.x.value == pytest.approx(4.34e12, rel=1e-2) for point in memory.points)


# --- samples


def result(medians, spread=0.002, throttled=(), rounds=2, count=100):
    """Rows of a made-up result with samples in blocks of five."""
    rows = []
    for index, median in enumerate(medians):
        noise = np.random.default_rng(index).normal(0, spread, count)
        samples = Samples(
            round=[number * rounds // count for number in range(count)],
            block=[number // 5 * len(medians) + index for number in range(count)],
            device_s=[float(median * max(1 + each, 0.01)) for each in noise],
            calls=[1] * count,
            throttled=[number // 5 in throttled for number in range(count)],
        )
        role = "variant" if index else "baseline"
        row = example.rows()[1]
        rows.append(attrs.evolve(row, role=role, name=f"row{index}", samples=samples, speed_of_light=None))
    return attrs.evolve(example.result(), rows=rows)


def charts(*medians, **keywords):
    made = result(medians, **keywords)
    return sample_charts.of_target(made, made.rows[-1])


def kinds(chart):
    return {word for shape in chart.picture.shapes for word in shape.kind.split()}


@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_picture_has_a_title_a_message_and_the_name_of_each_row(size):
    made = charts(4e-3, 2e-3, count=size)
    assert [chart.title for chart in made] == ["Speedup", "Time per call", "Distribution of the samples", "Time series"]
    for chart in made[1:]:
        assert chart.picture.title.endswith(" of ch07.memory_access")
        assert "row0" in chart.picture.alt
        written = [shape.content for shape in chart.picture.shapes if isinstance(shape, svg.Text)]
        assert all(any(text.startswith(name) for text in written) for name in ("row0", "row1"))


def test_the_message_of_the_times_names_the_fastest_that_is_believed():
    assert charts(4e-3, 2e-3)[1].picture.alt.startswith("row1 has the lowest median time per call: row0 4.00 ms, ")
    made = result((4e-3, 2e-3))
    made = attrs.evolve(made, rows=[made.rows[0], attrs.evolve(made.rows[1], verdict=Verdict.INVALID)])
    _, times, *_ = sample_charts.of_target(made, None)
    assert times.picture.alt.startswith("median time per call: row0")
    assert "row1, INVALID" in [shape.content for shape in times.picture.shapes if isinstance(shape, svg.Text)]


@pytest.mark.parametrize(
    ("place", "kind", "sentence", "with_it", "without"),
    [
        (3, "held", "Red dots: throttled.", {"throttled": (3,)}, {}),
        (3, "divider", "Vertical lines: a new process round.", {"rounds": 3}, {"rounds": 1}),
        (2, "second", "Dashed lines: each process round.", {"rounds": 3}, {"rounds": 1}),
        (1, "range", "Thick lines are the middle half.", {}, {"count": 10}),
    ],
)
def test_only_what_is_drawn_is_explained(place, kind, sentence, with_it, without):
    for keywords, is_there in ((with_it, True), (without, False)):
        chart = charts(4e-3, 2e-3, **keywords)[place]
        assert (sentence in chart.about) is is_there
        assert (kind in kinds(chart)) is is_there


def test_samples_outside_of_a_strip_are_counted():
    made = result((4e-3,))
    row = made.rows[0]
    samples = attrs.evolve(row.samples, device_s=[*row.samples.device_s[:-1], 4.0])
    made = attrs.evolve(made, rows=[attrs.evolve(row, samples=samples)])
    (chart,) = [chart for chart in sample_charts.of_target(made, None) if chart.title.startswith("Distribution")]
    written = [shape.content for shape in chart.picture.shapes if isinstance(shape, svg.Text)]
    assert any(text.startswith("row0, 100 samples, IQR ") and text.endswith(", 1 outside") for text in written)


def test_an_implementation_has_one_colour_and_the_best_is_the_same_everywhere():
    """A faster row whose gain is not proven is the best in none of them."""
    rows = [
        attrs.evolve(row, samples=result((6e-4,)).rows[0].samples)
        for row in example.rows()
        if row.role != "variant" or row.name in ("coalesced", "wide")
    ]
    rows = [attrs.evolve(row, verdict=Verdict.INCONCLUSIVE) if row.name == "wide" else row for row in rows]
    made = attrs.evolve(example.result(), rows=rows)
    expected = colours((row.name, row.role) for row in rows)
    (section,) = content.report("run", example.manifest(), [made], {}).sections
    (panel,) = roofline.roofline([made], example.manifest()).panels
    assert section.headline.name == "coalesced"
    assert [mark.name for mark in panel.marks if mark.kind == "best"] == ["coalesced"]
    assert all(mark.colour == expected[mark.name] for mark in panel.marks)
    _, times, *others = sample_charts.of_target(made, best_variant(made))
    (best,) = [shape for shape in times.picture.shapes if getattr(shape, "title", "").endswith(" best")]
    assert best.title.startswith("coalesced:")
    assert best.kind.split()[-1] == expected["coalesced"]
    for chart in others:
        assert {*expected.values()} <= kinds(chart)
