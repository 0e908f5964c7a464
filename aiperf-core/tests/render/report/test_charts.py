"""The pictures of a target: what stands in them, in which range, and in which colours."""

import itertools
import re

import attrs
import numpy as np
import pytest
from text_boxes import boxes_of

from aiperf_core.measurements import Estimate, Samples
from aiperf_core.render import ladder, marks, roofline, roofline_plot
from aiperf_core.render.ladder import Rung
from aiperf_core.render.report import charts, content
from aiperf_core.render.svg import SERIES, Path, Text, markup
from aiperf_core.results import example
from aiperf_core.results.models import Verdict
from aiperf_core.stats.best import best_variant


def result(medians, spreads=None, throttled=(), rounds=2, count=100):
    """Rows of a made-up result with samples in blocks of five."""
    rows = []
    for index, median in enumerate(medians):
        noise = np.random.default_rng(index).normal(0, (spreads or [0.002] * len(medians))[index], count)
        samples = Samples(
            round=[number * rounds // count for number in range(count)],
            block=[number // 5 * len(medians) + index for number in range(count)],
            device_s=[float(median * max(1 + one, 0.01)) for one in noise],
            calls=[1] * count,
            throttled=[number // 5 in throttled for number in range(count)],
        )
        rows.append(
            attrs.evolve(
                example.rows()[1],
                role="variant" if index else "baseline",
                name=f"row{index}",
                samples=samples,
                speed_of_light=None,
            )
        )
    return attrs.evolve(example.result(), rows=rows)


def drawn(*arguments, **keywords):
    """The three charts of a made-up result, whose second row is the best variant."""
    made = result(*arguments, **keywords)
    found = charts.subject(made, made.rows[1] if len(made.rows) > 1 else None)
    return [draw(found) for draw in (charts.times, charts.distributions, charts.series)]


def ticks(picture):
    return [shape.content for shape in picture.shapes if shape.kind == "tick"]


def kinds(picture):
    return {kind for shape in picture.shapes for kind in shape.kind.split()}


def seconds(label):
    value, unit = label.split()
    return float(value.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


def test_times_that_are_near_start_at_zero():
    assert ticks(drawn([4e-3, 2e-3])[0].picture) == ["0", "1 ms", "2 ms", "3 ms", "4 ms"]


def test_times_that_are_far_from_each_other_are_on_a_logarithmic_scale():
    picture = drawn([4e-3, 2e-5])[0].picture
    assert ticks(picture) == ["30 µs", "100 µs", "300 µs", "1 ms", "3 ms"]
    assert "time per call, logarithmic" in [shape.content for shape in picture.shapes if shape.kind == "note"]


def test_the_speed_of_light_is_drawn_and_named_where_it_is_known():
    made = result([4e-3, 2e-3])
    rows = [attrs.evolve(row, speed_of_light=example.rows()[0].speed_of_light) for row in made.rows]
    lit = charts.times(charts.subject(attrs.evolve(made, rows=rows), None)).picture
    assert "light" in kinds(lit)
    assert "SOL 495 µs" in [shape.content for shape in lit.shapes if shape.kind == "note"]
    dark = drawn([4e-3, 2e-3])[0].picture
    assert "light" not in kinds(dark)
    assert not [shape for shape in dark.shapes if isinstance(shape, Text) and "SOL" in shape.content]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_picture_has_a_title_a_message_axes_and_the_name_of_each_row(size):
    for chart in drawn([4e-3, 2e-3], count=size):
        picture = chart.picture
        assert picture.title.endswith(" of ch07.memory_access")
        assert "row0" in picture.alt
        assert len(ticks(picture)) >= 2
        assert [shape.content for shape in picture.shapes if shape.kind == "name"] == ["row0", "row1"]
        (axis,) = [shape.content for shape in picture.shapes if shape.kind == "note" and "sample" not in shape.content]
        assert axis in ("time per call", "block, in the order taken")
        text = markup(picture)
        assert re.match(r'<svg class="figure" viewBox="[^"]*" role="img" xmlns="[^"]*"><title>\w', text)
        assert "</title><desc>" in text


def test_the_message_of_the_times_is_what_is_fastest():
    assert drawn([4e-3, 2e-3])[0].picture.alt.startswith("row1 has the lowest median time per call: row0 4.00 ms, ")
    made = result([4e-3, 2e-3])
    rows = [made.rows[0], attrs.evolve(made.rows[1], verdict=Verdict.INVALID)]
    picture = charts.times(charts.subject(attrs.evolve(made, rows=rows), None)).picture
    assert picture.alt.startswith("median time per call: row0")
    assert "row1, INVALID" in [shape.content for shape in picture.shapes if shape.kind == "name"]


def test_each_strip_has_a_range_of_its_own():
    """The strip of a quiet row is as wide as that of a noisy row, and holds nearly all of its samples."""
    made = result([4e-3] * 2, [0.0005, 0.2])
    picture = charts.distributions(charts.subject(made, None)).picture
    rows = [
        [shape for shape in picture.shapes if shape.kind == f"ridge {colour}"] for colour in (SERIES[-1], SERIES[0])
    ]
    for (ridge,) in rows:
        assert max(x for x, _ in ridge.points) - min(x for x, _ in ridge.points) > 0.9 * (charts.WIDE - 4 * charts.EDGE)
    labels = ticks(picture)
    quiet = [seconds(one) for one in labels if one.startswith(("3.9", "4.0"))]
    assert len(quiet) >= 2
    assert max(quiet) - min(quiet) < 4e-5
    assert len(set(labels)) == len(labels)


def test_one_sample_far_out_does_not_flatten_its_strip():
    made = result([4e-3])
    row = made.rows[0]
    times = [*row.samples.device_s[:-1], 4.0]
    made = attrs.evolve(made, rows=[attrs.evolve(row, samples=attrs.evolve(row.samples, device_s=times))])
    picture = charts.distributions(charts.subject(made, None)).picture
    assert all(3.9e-3 < seconds(one) < 4.1e-3 for one in ticks(picture))
    assert any(shape.content.startswith("100 samples, IQR") for shape in picture.shapes if shape.kind == "note")
    assert any(shape.content.endswith(", 1 outside") for shape in picture.shapes if shape.kind == "note")


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_few_samples_are_dots_and_none_is_lost(count):
    chart = drawn([4e-3, 2e-3], count=count)[1]
    assert sum("sample" in shape.kind.split() for shape in chart.picture.shapes) == 2 * count
    assert "ridge" not in kinds(chart.picture)
    assert "Each dot is a sample." in chart.about


def test_many_samples_are_a_density():
    chart = drawn([4e-3, 2e-3], count=51)[1]
    assert {"ridge"} <= kinds(chart.picture)
    assert "sample" not in kinds(chart.picture)
    for shape in chart.picture.shapes:
        if shape.kind.startswith("ridge"):
            assert max(y for _, y in shape.points) - min(y for _, y in shape.points) == pytest.approx(charts.STRIP)


def test_rounds_are_divided_and_told_apart():
    _, distributions, series = drawn([4e-3, 2e-3], rounds=3)
    assert sum(shape.kind.startswith("round ") for shape in distributions.picture.shapes) == 6
    assert sum(shape.kind == "divider" for shape in series.picture.shapes) == 2


def test_clocks_that_were_held_down_are_marked():
    series = drawn([4e-3, 2e-3], throttled=(3, 4))[2]
    assert sum(shape.kind == "held" for shape in series.picture.shapes) == 4
    assert "clocks were held down in 4" in series.picture.alt
    assert "clocks were never seen held down" in drawn([4e-3, 2e-3])[2].picture.alt


@pytest.mark.parametrize(
    ("mark", "sentence", "with_it", "without"),
    [
        ("held", "Red dots: clocks held down.", {"throttled": (3,)}, {}),
        ("divider", "Vertical lines: a new process round.", {"rounds": 3}, {"rounds": 1}),
        ("round", "Lines below a strip are the quartiles of each process round.", {"rounds": 3}, {"rounds": 1}),
        ("ridge", "Areas are the density of the samples, the highest value in full height.", {}, {"count": 10}),
        ("whisker", "Thick lines hold the middle half of the samples, thin lines the middle 98 %.", {}, {"count": 10}),
    ],
)
def test_only_what_is_drawn_is_explained(mark, sentence, with_it, without):
    for keywords, is_there in ((with_it, True), (without, False)):
        made = drawn([4e-3, 2e-3], **keywords)
        assert (sentence in [line for chart in made for line in chart.about]) is is_there
        assert any(mark in kinds(chart.picture) for chart in made) is is_there


def test_the_legend_has_the_kinds_of_marks_that_are_drawn():
    def names(picture):
        return [shape.content for shape in picture.shapes if shape.kind == "label"]

    assert names(drawn([4e-3, 2e-3])[0].picture) == ["baseline", "best variant"]
    assert names(drawn([4e-3, 2e-3, 3e-3])[0].picture) == ["baseline", "variant", "best variant"]
    assert names(drawn([4e-3])[0].picture) == ["baseline"]


def test_an_implementation_has_one_colour_in_all_pictures_of_a_target():
    made = example.result()
    samples = result([5e-3, 6e-4]).rows[0].samples
    rows = [attrs.evolve(row, samples=samples) for row in made.rows]
    made = attrs.evolve(made, rows=rows)
    found = charts.subject(made, rows[2])
    expected = marks.colours((row.name, row.role) for row in rows)
    assert len(set(expected.values())) == len(rows)
    for draw in (charts.times, charts.distributions, charts.series):
        picture = draw(found).picture
        used = {shape.kind.split()[-1] for shape in picture.shapes if shape.kind.split()[-1] in SERIES}
        assert used == set(expected.values()), draw
        for row in rows:
            top = next(
                shape.y for shape in picture.shapes if shape.kind == "name" and shape.content.startswith(row.name)
            )
            first = next(
                shape for shape in picture.shapes if shape.kind.split()[-1] in SERIES and _top(shape) >= top - 4
            )
            assert first.kind.split()[-1] == expected[row.name], (draw, row.name)
    (panel,) = roofline.roofline([made], example.manifest()).panels
    roofs = roofline_plot.draw([panel])
    for shape in roofs.shapes:
        if "mark" in shape.kind.split() and shape.title:
            name = shape.title.partition(":")[2].split()[0]
            assert shape.kind.split()[-1] == expected[name], name
    rungs = [Rung(name=row.name, role=row.role, ratio=Estimate(2.0, 1.9, 2.1)) for row in rows]
    for shape in ladder.draw(rungs, "speedup", "x").shapes:
        if "mark" in shape.kind.split():
            assert shape.kind.split()[-1] == expected[shape.title.partition(":")[0]]


def test_the_head_of_a_page_the_roofline_and_the_pictures_have_one_best_variant():
    """A faster row whose gain is not proven is the best in none of them."""
    rows = [row for row in example.rows() if row.role != "variant" or row.name in ("coalesced", "wide")]
    rows = [
        attrs.evolve(row, verdict=Verdict.INCONCLUSIVE, samples=result([6e-4]).rows[0].samples)
        if row.name == "wide"
        else row
        for row in rows
    ]
    made = attrs.evolve(example.result(), rows=rows)
    (section,) = content.report("run", example.manifest(), [made], {}).sections
    (panel,) = roofline.roofline([made], example.manifest()).panels
    assert section.headline.name == "coalesced"
    assert [mark.name for mark in panel.marks if mark.kind == "best"] == ["coalesced"]
    (_, figure, *_) = charts.of_target(made, best_variant(made))
    assert [
        shape.kind.split()[-1] for shape in figure.picture.shapes if isinstance(shape, Path) and "mark" in shape.kind
    ][:1] == [marks.colours((row.name, row.role) for row in rows)["coalesced"]]


def _top(shape):
    return min(y for _, y in shape.points) if hasattr(shape, "points") else shape.y


@pytest.mark.parametrize("count", [1, 6, 100])
@pytest.mark.parametrize("median", [1.234e-9, 999.9e-6, 5e3])
@pytest.mark.parametrize("noise", [0, 0.002, 0.5])
def test_no_text_is_over_the_edge(count, median, noise):
    made = result([median * 30, median], [noise] * 2, count=count)
    rows = [
        attrs.evolve(row, name=name, speed_of_light=sol)
        for row, name, sol in zip(made.rows, ("w" * 70, "row"), (None, example.rows()[0].speed_of_light), strict=True)
    ]
    found = charts.subject(attrs.evolve(made, rows=rows), rows[1])
    for draw in (charts.times, charts.distributions, charts.series):
        picture = draw(found).picture
        for text, box in boxes_of(picture):
            assert box.left >= 0, text
            assert box.right <= picture.width, text
            assert box.bottom >= 0, text
            assert box.top <= picture.height, text


def test_strips_share_a_scale_with_1_on_it_and_an_axis():
    estimates = [Estimate(8.0, 7.9, 8.1), Estimate(0.0, 0.0, 0.5)]
    scale = charts.speedup_scale(estimates)
    strips = [markup(charts.speedup_strip("t", one, scale, "FASTER")) for one in estimates]
    ones = [re.search(r'<path class="one" d="M([\d.]+) ', one)[1] for one in strips]
    assert ones[0] == ones[1]
    assert re.search(r'<path class="one" d="M([\d.]+) ', markup(charts.speedup_axis(scale)))[1] == ones[0]
    assert "<title>speedup of t</title><desc>FASTER: 8.00x [7.90, 8.10]</desc>" in strips[0]
    assert charts.speedup_scale([])(1.0) == pytest.approx(75, abs=2)


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (1.0, 8.0), (1.0, 923.0), (0.05, 923.0), (0.3, 1.2e3), (1, 1e12)]
)
def test_labels_of_the_axis_of_strips_do_not_touch(low, high):
    picture = charts.speedup_axis(charts.speedup_scale([Estimate(high, low, high)]))
    boxes = [box for _, box in boxes_of(picture)]
    assert boxes[0].left >= 0
    assert boxes[-1].right <= picture.width
    assert all(before.right + 3.9 < after.left for before, after in itertools.pairwise(boxes))
