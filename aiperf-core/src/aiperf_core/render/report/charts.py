"""The pictures of a target: the interval of its speedup, and the times, the distribution and the series of its samples.

An implementation has the same colour in all of them (see `marks`).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.render import forest, marks
from aiperf_core.render.report import samples as sampled
from aiperf_core.render.report.samples import DENSE, RowSamples
from aiperf_core.render.svg import (
    Dot,
    Path,
    Picture,
    Scale,
    Shape,
    Text,
    axis_below,
    legend,
    line,
    log_scale,
    mark,
    shortened,
    text_width,
)
from aiperf_core.results.models import DISBELIEVED, Row, TargetResult

WIDE = 340.0  # of a picture that stands beside others
EDGE = 8.0
LANE = 30.0  # height of a row of medians
STRIP, SERIES = 24.0, 34.0  # heights of a strip of samples and of a series
LEFT = 58.0  # of a strip with an upright axis
AXIS = 32.0
# On a scale that starts at zero, a time five times less is still a length that a reader can compare.
LINEAR = 5.0
FEW = 12  # samples; fewer have no quantiles worth drawing
SEPARATE = 40  # points of a series; more are a line without dots
SPEEDUP_WIDE, SPEEDUP_HIGH = 150.0, 18.0

# From the name of an implementation to its address.
Link = Callable[[str], str]


@frozen(kw_only=True)
class Subject:
    """A target whose samples are drawn.

    rows: the rows that have samples.
    best: the best variant.
    colours: the class of the colour of each implementation.
    """

    target: str
    rows: Sequence[RowSamples]
    best: Row | None
    colours: Mapping[str, str]

    def kind(self, row: RowSamples) -> str:
        """The kind of a row's mark: its role, or `best`."""
        return "best" if row.row is self.best else row.row.role

    def colour(self, row: RowSamples) -> str:
        """The class of a row's colour."""
        return self.colours[row.row.name]


@frozen(kw_only=True)
class Chart:
    """A picture with its title, and sentences on its marks. Only marks that are drawn are mentioned."""

    title: str
    about: Sequence[str]
    picture: Picture


def subject(result: TargetResult, best: Row | None) -> Subject:
    """A target with the rows that have samples."""
    colours = marks.colours((row.name, row.role) for row in result.rows)
    return Subject(target=result.target, rows=sampled.of_rows(result), best=best, colours=colours)


def of_target(result: TargetResult, best: Row | None, link: Link | None = None) -> list[Chart]:
    """All pictures of a target; none where it has no samples. `link` gives the address of an implementation."""
    found = subject(result, best)
    several = [speedups(found, result.floor, link)] if has_speedups(found) else []
    return [*several, times(found), distributions(found), series(found)] if found.rows else []


# --- speedups


def speedup_scale(estimates: Sequence[Estimate]) -> Scale:
    """One logarithmic scale for the strips of all targets, with 1 on it."""
    low = min([one.low for one in estimates if one.low > 0], default=1.0)
    high = max([one.high for one in estimates if one.high > 0], default=1.0)
    return log_scale(min(low / 1.1, 0.8), max(high * 1.1, 1.25), 6, SPEEDUP_WIDE - 6)


def speedup_axis(scale: Scale) -> Picture:
    """The axis above the strips of all targets."""
    shapes: list[Shape] = []
    free = 0.0
    for tick in scale.ticks(4):
        x, label = scale(tick), f"{tick:g}x"
        wide = text_width(label)
        left = min(max(x - wide / 2, 0), SPEEDUP_WIDE - wide)
        shapes.append(line(x, 14, x, SPEEDUP_HIGH, "one" if tick == 1 else "zero"))
        if left >= free:
            shapes.append(Text(left, 10, label, "tick"))
            free = left + wide + 4
    alt = f"logarithmic, {units.number(scale.low)}x to {units.number(scale.high)}x"
    return Picture(SPEEDUP_WIDE, SPEEDUP_HIGH, "axis of the speedups", alt, shapes, "strip")


def speedup_strip(target: str, estimate: Estimate, scale: Scale, verdict: str) -> Picture:
    """The interval of one speedup, beside 1."""
    middle = SPEEDUP_HIGH / 2
    shown = units.ratio_estimate(estimate)
    shapes = [
        line(scale(1), 1, scale(1), SPEEDUP_HIGH - 1, "one"),
        line(scale(estimate.low), middle, scale(estimate.high), middle, f"range v-{verdict}"),
        Dot(scale(estimate.value), middle, 3.6, f"v-{verdict}"),
    ]
    alt = f"{verdict}: {shown.value} {shown.interval}"
    return Picture(SPEEDUP_WIDE, SPEEDUP_HIGH, f"speedup of {target}", alt, shapes, "strip")


# --- times


def has_speedups(found: Subject) -> bool:
    """Whether there is a believed speedup to draw."""
    return any(_compared(found))


def speedups(found: Subject, floor: float, link: Link | None = None) -> Chart:
    """The speedups of the variants with their intervals, beside the band that counts as no difference."""
    rows = [(one.name, speedup, one.verdict.value, link(one.name) if link else "") for one, speedup in _compared(found)]
    picture = forest.speedups(rows, title=f"speedups of {found.target}", floor=floor, wide=WIDE)
    about = [f"Lines are intervals of 95 %. The band is {floor * 100:g} % around 1: no significant difference."]
    return Chart(title="Speedup", about=about, picture=picture)


def _compared(found: Subject) -> Iterator[tuple[Row, Estimate]]:
    rows = (one.row for one in found.rows)
    return ((row, row.speedup) for row in rows if row.speedup is not None and row.verdict not in DISBELIEVED)


def times(found: Subject) -> Chart:
    """For each row the median and the spread of its samples on one scale; and the speed of light."""
    rows = found.rows
    quantiles = [row.quantiles(0.01, 0.25, 0.5, 0.75, 0.99) for row in rows]
    sol = min((row.row.speed_of_light.time_s for row in rows if row.row.speed_of_light), default=None)
    scale = _time_scale(quantiles, sol)
    is_sol_shown = sol is not None and scale.low <= sol <= scale.high
    top = 15.0 if is_sol_shown else 0.0
    bottom = top + LANE * len(rows) + 4
    ticks = scale.ticks(5)
    labels = [units.seconds(tick, 1) for tick in ticks] if scale.log else _labels(ticks)
    title = "time per call, logarithmic" if scale.log else "time per call"
    shapes = axis_below(scale, top, bottom, list(zip(ticks, labels, strict=True)), title)
    if is_sol_shown and sol is not None:
        shapes += _sol(scale, sol, [top + LANE * index for index in range(len(rows))])
    for index, (row, quantile) in enumerate(zip(rows, quantiles, strict=True)):
        shapes += [_name(row, top + LANE * index + 11, WIDE - 2 * EDGE)]
        shapes += _median(found, row, quantile, scale, top + LANE * index + 21)
    keys = [
        (form, f"{looks} baseline", "best variant" if kind == "best" else kind)
        for kind, (form, looks) in marks.FORMS.items()
        if kind in {_shown(found.kind(row)) for row in rows}
    ]
    key, end = legend(keys, EDGE, WIDE - EDGE, bottom + AXIS)
    about = ["Large marks are medians."]
    if any(len(row.times) >= FEW for row in rows):
        about.append("Thick lines hold the middle half of the samples, thin lines the middle 98 %.")
    if any(len(row.times) < FEW for row in rows):
        about.append("Small dots are single samples.")
    if sol is not None and not is_sol_shown:
        about.append(f"The speed of light (SOL), {units.seconds(sol)}, is outside of the picture.")
    alt = f"{_lowest(found)}median time per call: "
    alt += ", ".join(f"{row.row.name} {units.seconds(row.median)}" for row in rows)
    return Chart(
        title="Time per call",
        about=about,
        picture=Picture(WIDE, end + 4, f"time per call of {found.target}", alt, [*shapes, *key]),
    )


def _time_scale(quantiles: Sequence[Sequence[float]], sol: float | None) -> Scale:
    low, high = min(quantile[0] for quantile in quantiles), max(quantile[4] for quantile in quantiles)
    log = high / min(quantile[2] for quantile in quantiles) > LINEAR
    if sol is not None and (not log or sol > low / 30):
        low, high = min(low, sol), max(high, sol)
    return Scale(low / 1.15 if log else 0.0, high * (1.15 if log else 1.04), EDGE, WIDE - EDGE, log)


def _sol(scale: Scale, sol: float, lanes: Sequence[float]) -> list[Shape]:
    """The speed of light: its name above, and a line through the lanes that leaves out the names of rows."""
    told = f"SOL {units.seconds(sol)}"
    left = min(max(EDGE, scale(sol) - text_width(told) / 2), WIDE - EDGE - text_width(told))
    lines = [line(scale(sol), top + 14, scale(sol), top + LANE, "light") for top in lanes]
    return [*lines, Text(left, 10, told, "note")]


def _median(found: Subject, row: RowSamples, quantile: Sequence[float], scale: Scale, y: float) -> list[Shape]:
    """The median of a row on its quantiles, or on its samples where these are few."""
    p01, p25, p50, p75, p99 = quantile
    colour = found.colour(row)
    if len(row.times) < FEW:
        shapes: list[Shape] = [Dot(scale(time), y, 2, f"sample {colour}") for time in row.times.tolist()]
    else:
        shapes = [
            line(scale(p01), y, scale(p99), y, f"whisker {colour}"),
            line(scale(p25), y, scale(p75), y, f"range {colour}"),
        ]
    form, looks = marks.form_of(found.kind(row))
    return [*shapes, mark(scale(p50), y, 4, form, f"{looks} {colour}")]


def _lowest(found: Subject) -> str:
    """Which believed implementation takes the least time."""
    believed = [row for row in found.rows if row.row.verdict not in DISBELIEVED]
    if len(believed) < 2:
        return ""
    return f"{min(believed, key=lambda row: row.median).row.name} has the lowest "


# --- distributions


def distributions(found: Subject) -> Chart:
    """For each row the distribution of its samples in a range of its own, and below it the quartiles of each round."""
    top = 0.0
    shapes: list[Shape] = []
    has_rounds = False
    for row in found.rows:
        low, high = sampled.strip_range(row)
        margin = 0.03 * (high - low)
        scale = Scale(low - margin, high + margin, EDGE + 4, WIDE - EDGE - 4)
        floor = top + 14 + STRIP
        quartiles = sampled.rounds(row)
        bottom = floor + (5 + 3 * len(quartiles) if len(quartiles) > 1 else 0)
        ticks = _two_or_more(scale)
        shapes += _strip_axis(scale, top + 14, floor, bottom, ticks)
        shapes += _shape(row, scale, floor, found.colour(row))
        for index, (p25, p50, p75) in enumerate(quartiles if len(quartiles) > 1 else ()):
            y = floor + 5 + 3 * index
            shapes += [
                line(scale(p25), y, scale(p75), y, f"round {found.colour(row)}"),
                Dot(scale(p50), y, 1.3, found.colour(row)),
            ]
            has_rounds = True
        note = _counted(row, low, high)
        shapes += [
            line(scale(row.median), top + 14, scale(row.median), floor, f"median {found.colour(row)}"),
            _name(row, top + 10, WIDE - 3 * EDGE - text_width(note)),
            Text(WIDE - EDGE, top + 10, note, "note", "end"),
        ]
        top = bottom + 20
    about = ["Each strip has a range of its own. The line across is the median."]
    if any(len(row.times) <= DENSE for row in found.rows):
        about.append("Each dot is a sample.")
    if any(len(row.times) > DENSE for row in found.rows):
        about.append("Areas are the density of the samples, the highest value in full height.")
    if has_rounds:
        about.append("Lines below a strip are the quartiles of each process round.")
    alt = "the middle half of the samples is as wide as: "
    alt += ", ".join(f"{row.row.name} {units.percent(_width(row))} of the median" for row in found.rows)
    shapes.append(Text(WIDE - EDGE, top + 8, "time per call", "note", "end"))
    return Chart(
        title="Distribution of the samples",
        about=about,
        picture=Picture(WIDE, top + 14, f"distribution of the samples of {found.target}", alt, shapes),
    )


def _strip_axis(scale: Scale, top: float, floor: float, bottom: float, ticks: Sequence[float]) -> list[Shape]:
    """The base of a strip with the labels of its own range."""
    shapes: list[Shape] = []
    for tick, label in zip(ticks, _labels(ticks), strict=True):
        half = text_width(label) / 2
        x = min(max(scale(tick), EDGE + half), WIDE - EDGE - half)
        shapes += [
            line(scale(tick), top, scale(tick), bottom + 2, "grid"),
            Text(x, bottom + 13, label, "tick", "middle"),
        ]
    return [*shapes, line(scale.left, floor, scale.right, floor, "base")]


def _two_or_more(scale: Scale) -> list[float]:
    """Few ticks, but at least two where that is possible: a single label gives no range."""
    found = (scale.ticks(most) for most in (3, 4, 5, 6))
    return next((ticks for ticks in found if len(ticks) > 1), scale.ticks(3))


def _shape(row: RowSamples, scale: Scale, floor: float, colour: str) -> list[Shape]:
    """The distribution of a row above its floor: a dot for each of few samples, else their density."""
    if len(row.times) <= DENSE:
        return _dots(row, scale, floor, colour)
    shares = sampled.density(row, scale.low, scale.high)
    step = (scale.right - scale.left) / len(shares)
    ridge = [(scale.left + (index + 0.5) * step, floor - share * STRIP) for index, share in enumerate(shares)]
    return [Path([(ridge[0][0], floor), *ridge, (ridge[-1][0], floor)], f"ridge {colour}", closed=True)]


def _dots(row: RowSamples, scale: Scale, floor: float, colour: str) -> list[Shape]:
    """A dot for each sample within the range; dots at one place are stacked."""
    radius = 2.2
    columns: dict[int, int] = {}
    places = []
    for time in sorted(time for time in row.times.tolist() if scale.low <= time <= scale.high):
        column = int(scale(time) / (2 * radius))
        places.append((scale(time), columns.get(column, 0)))
        columns[column] = columns.get(column, 0) + 1
    step = min(2 * radius, (STRIP - 2 * radius) / max(1, max(columns.values()) - 1))
    return [Dot(x, floor - radius - 0.6 - step * level, radius, f"sample {colour}") for x, level in places]


def _counted(row: RowSamples, low: float, high: float) -> str:
    """The number of samples, the width of their middle half, and how many are outside of the strip."""
    outside = sampled.beyond(row, low, high)
    width = f", IQR {units.percent(_width(row))}" if len(row.times) > 3 else ""
    return f"{units.plural('sample', len(row.times))}{width}" + (f", {outside:,} outside" if outside else "")


def _width(row: RowSamples) -> float:
    """The interquartile range as a share of the median."""
    p25, p75 = row.quantiles(0.25, 0.75)
    return (p75 - p25) / row.median


# --- time series


def series(found: Subject) -> Chart:
    """For each row the medians of its blocks in their order, each in a range of its own."""
    lines = [sampled.series(row) for row in found.rows]
    last = max(points[-1].block for points in lines)
    scale = Scale(0, max(last, 1), LEFT, WIDE - EDGE - 4)
    lane = SERIES + 28
    bottom = lane * len(lines) + 4
    ticks = [(tick, f"{tick:,.0f}") for tick in scale.ticks(5) if tick == round(tick)]
    shapes = axis_below(scale, 12, bottom, ticks, "block, in the order taken")
    starts = _starts(lines)
    shapes += [line(scale(at), 12, scale(at), bottom, "divider") for at in starts]
    held = outside = 0
    for index, (row, points) in enumerate(zip(found.rows, lines, strict=True)):
        top = lane * index + 22
        up = _deviations(points, top)
        places = [(scale(point.block), up(point.deviation)) for point in points]
        shapes += [line(scale.left, up(0), scale.right, up(0), "zero"), *_upright(up)]
        shapes.append(Path(places, f"series {found.colour(row)}"))
        if len(places) <= SEPARATE:
            shapes += [Dot(x, y, 1.6, found.colour(row)) for x, y in places]
        beyond = [
            place for place, point in zip(places, points, strict=True) if not up.low <= point.deviation <= up.high
        ]
        shapes += [Dot(x, y, 3, f"open {found.colour(row)}") for x, y in beyond]
        throttled = [place for place, point in zip(places, points, strict=True) if point.throttled]
        shapes += [Dot(x, y, 2.4, "held") for x, y in throttled]
        shapes.append(_name(row, lane * index + 11, WIDE - 2 * EDGE))
        held, outside = held + len(throttled), outside + len(beyond)
    about = ["Medians of blocks, as deviations from the median of the row; each strip has a range of its own."]
    about += ["Red dots: clocks held down."] if held else []
    about += ["Circles at an edge: outside of the range."] if outside else []
    about += ["Vertical lines: a new process round."] if starts else []
    alt = f"clocks were held down in {held} of these medians" if held else "clocks were never seen held down"
    alt += "; largest deviation of a block: "
    most = [max(abs(point.deviation) for point in points) for points in lines]
    alt += ", ".join(f"{row.row.name} {units.percent(one)}" for row, one in zip(found.rows, most, strict=True))
    picture = Picture(WIDE, bottom + AXIS, f"time series of the blocks of {found.target}", alt, shapes)
    return Chart(title="Time series", about=about, picture=picture)


def _deviations(points: Sequence[sampled.Point], top: float) -> Scale:
    """The upright scale of a row, the same to either side of its median."""
    low, high = sampled.span([point.deviation for point in points], sampled.LEAST_REACH)
    reach = 1.05 * max(-low, high)
    return Scale(-reach, reach, top + SERIES, top)


def _upright(up: Scale) -> list[Shape]:
    """The ends of an upright scale and its middle."""
    shapes: list[Shape] = []
    for share, y in ((up.high, up.right + 5), (0.0, up(0) + 3.5), (up.low, up.left + 2)):
        shapes.append(Text(LEFT - 6, y, _percent(share), "tick", "end"))
    return shapes


def _starts(lines: Sequence[Sequence[sampled.Point]]) -> list[float]:
    """Where a round of fresh processes begins, by block numbers; the first is left out."""
    firsts: dict[int, int] = {}
    for point in (point for points in lines for point in points):
        firsts[point.round] = min(point.block, firsts.get(point.round, point.block))
    return [at - 0.5 for at in sorted(firsts.values())[1:]]


# --- parts


def _shown(kind: str) -> str:
    return kind if kind in marks.FORMS else "variant"


def _name(row: RowSamples, y: float, room: float) -> Text:
    """The name of a row, with its verdict where it is not believed."""
    verdict = f", {row.row.verdict.value}" if row.row.verdict in DISBELIEVED else ""
    return Text(EDGE, y, shortened(row.row.name, room - text_width(verdict)) + verdict, "name")


def _labels(ticks: Sequence[float]) -> list[str]:
    """Times beside an axis, with as many digits as tell neighbours apart."""
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    finest = _power(min(steps) if steps else ticks[0]) if ticks else 0
    return [units.seconds(tick, max(1, _power(tick) - finest + 1)) if tick else "0" for tick in ticks]


def _power(value: float) -> int:
    return math.floor(math.log10(value) + 1e-9) if value > 0 else 0


def _percent(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{units.percent(abs(share))}" if abs(share) > 1e-9 else "0 %"
