"""The pictures of a target: the interval of its speedup, and the times, the spread and the course of its samples."""

from collections.abc import Sequence
from statistics import median

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.render.report import samples as sampled
from aiperf_core.render.report.samples import RowSamples
from aiperf_core.render.svg import Dot, Path, Picture, Scale, Shape, Text, axis_below, line, log_scale, shortened
from aiperf_core.results.models import DISBELIEVED, Row

WIDE = 340.0  # of a picture that stands beside others
EDGE = 8.0
LANE = 30.0  # height of a row
RIDGE = 15.0  # height of a density
AXIS = 32.0
# On a scale that starts at zero, a time five times less is still a length that a reader can compare.
LINEAR = 5.0
STRIP_WIDE, STRIP_HIGH = 150.0, 18.0
NOISIER = 3.0
LEAST_REACH = 0.002  # share of the median on either side, or the finest noise would fill the picture


def speedup_scale(estimates: Sequence[Estimate]) -> Scale:
    """One logarithmic scale for the strips of all targets, with 1 on it."""
    low = min([one.low for one in estimates if one.low > 0], default=1.0)
    high = max([one.high for one in estimates if one.high > 0], default=1.0)
    return log_scale(min(low / 1.1, 0.8), max(high * 1.1, 1.25), 6, STRIP_WIDE - 6)


def speedup_strip(estimate: Estimate, scale: Scale, verdict: str) -> Picture:
    """The interval of one speedup, beside 1."""
    middle = STRIP_HIGH / 2
    shown = units.ratio_estimate(estimate)
    shapes = [
        line(scale(1), 1, scale(1), STRIP_HIGH - 1, "one"),
        line(scale(estimate.low), middle, scale(estimate.high), middle, f"range v-{verdict}"),
        Dot(scale(estimate.value), middle, 3.6, f"v-{verdict}"),
    ]
    return Picture(STRIP_WIDE, STRIP_HIGH, f"speedup {shown.value} {shown.interval}", shapes, "strip")


def times(rows: Sequence[RowSamples], best: Row | None) -> Picture:
    """For each row the median, the middle half and the middle 98 % of its samples; and the speed of light."""
    quantiles = [row.quantiles(0.01, 0.25, 0.5, 0.75, 0.99) for row in rows]
    light = min((row.row.speed_of_light.time_s for row in rows if row.row.speed_of_light), default=None)
    low, high = min(quantile[0] for quantile in quantiles), max(quantile[4] for quantile in quantiles)
    log = high / min(quantile[2] for quantile in quantiles) > LINEAR
    if light is not None and (not log or light > low / 30):
        low, high = min(low, light), max(high, light)
    scale = Scale(low / 1.15 if log else 0.0, high * (1.15 if log else 1.04), EDGE, WIDE - EDGE, log)
    bottom = LANE * len(rows) + 4
    shapes = axis_below(scale, 0, bottom, [(tick, units.seconds(tick, 2)) for tick in scale.ticks(5)], "time of a call")
    if light is not None and scale.low <= light <= scale.high:
        told = f"speed of light: {units.seconds(light)}"
        shapes.append(line(scale(light), 0, scale(light), bottom, "light", told))
    for index, (row, (p01, p25, p50, p75, p99)) in enumerate(zip(rows, quantiles, strict=True)):
        middle = LANE * index + 21
        kind = _kind(row.row, best)
        shapes += [
            _name(row, LANE * index + 11),
            line(scale(p01), middle, scale(p99), middle, f"whisker {kind}"),
            line(scale(p25), middle, scale(p75), middle, f"range {kind}"),
            Dot(scale(p50), middle, 3.8, kind),
        ]
    each = ", ".join(f"{row.row.name} {units.seconds(row.median)}" for row in rows)
    return Picture(WIDE, bottom + AXIS, f"median times of a call: {each}", shapes)


def spread(rows: Sequence[RowSamples], best: Row | None) -> Picture:
    """For each row how its samples lie around their median, and below it the quartiles of each round."""
    ends = [[end / row.median - 1 for end in row.quantiles(0.025, 0.975)] for row in rows]
    scale = Scale(-_reach([-low for low, _ in ends]), _reach([high for _, high in ends]), EDGE, WIDE - EDGE)
    top = 0.0
    shapes: list[Shape] = []
    for row in rows:
        kind = _kind(row.row, best)
        floor = top + 12 + RIDGE
        shapes += [*_ridge(row, scale, floor, kind), _name(row, top + 9, 100)]
        outside = sampled.beyond(row, scale.low, scale.high)
        count = f"{len(row.times):,} samples" + (f", {outside:,} beyond" if outside else "")
        shapes.append(Text(WIDE - EDGE, top + 9, count, "note", "end"))
        quartiles = sampled.rounds(row)
        top = floor + 6
        for p25, p50, p75 in quartiles if len(quartiles) > 1 else ():
            shapes += [
                line(scale(p25), top - 3, scale(p75), top - 3, f"round {kind}"),
                Dot(scale(p50), top - 3, 1.3, kind),
            ]
            top += 3
    ticks = [(tick, _percent(tick)) for tick in scale.ticks(5)]
    each = ", ".join(
        f"{row.row.name} {_percent(low)} to {_percent(high)}" for row, (low, high) in zip(rows, ends, strict=True)
    )
    alt = f"spread of the samples around their median, 95 % of them: {each}"
    axis = axis_below(scale, 0, top, ticks, "deviation from the median of the row")
    return Picture(WIDE, top + AXIS, alt, [*axis, *shapes])


def _ridge(row: RowSamples, scale: Scale, floor: float, kind: str) -> list[Shape]:
    """The density of a row's samples, as an area above its floor."""
    shares = sampled.density(row, scale.low, scale.high)
    if not shares:
        return []
    step = (scale.right - scale.left) / len(shares)
    ridge = [(scale.left + (index + 0.5) * step, floor - share * RIDGE) for index, share in enumerate(shares)]
    return [Path([(ridge[0][0], floor), *ridge, (ridge[-1][0], floor)], f"ridge {kind}", closed=True)]


def course(rows: Sequence[RowSamples], best: Row | None) -> Picture:
    """For each row the medians of its blocks in their order. Throttled blocks are marked, process rounds divided."""
    courses = [sampled.course(row) for row in rows]
    last = max(points[-1].block for points in courses)
    scale = Scale(0, max(last, 1), EDGE + 2, WIDE - EDGE - 2)
    reach = _reach([sorted(abs(point.deviation) for point in points)[int(0.98 * len(points))] for points in courses])
    bottom = LANE * len(rows) + 4
    shapes = axis_below(scale, 0, bottom, [(tick, f"{tick:,.0f}") for tick in scale.ticks(5)], "number of the block")
    shapes += [line(scale(at), 0, scale(at), bottom, "divider") for at in _divisions(courses)]
    held = 0
    for index, (row, points) in enumerate(zip(rows, courses, strict=True)):
        up = Scale(-reach, reach, LANE * index + 29, LANE * index + 13)
        shapes += [_name(row, LANE * index + 11), line(scale.left, up(0), scale.right, up(0), "zero")]
        places = [(scale(point.block), up(point.deviation)) for point in points]
        shapes.append(Path(places, f"course {_kind(row.row, best)}"))
        throttled = [place for place, point in zip(places, points, strict=True) if point.throttled]
        shapes += [Dot(x, y, 2.4, "held") for x, y in throttled]
        held += len(throttled)
    alt = f"medians of blocks in the order taken, up to {_percent(reach)} from the median of all; "
    alt += f"clocks were held down in {held}" if held else "clocks were never seen held down"
    return Picture(WIDE, bottom + AXIS, alt, shapes)


def _kind(row: Row, best: Row | None) -> str:
    """The class that gives a row its colour."""
    if row.verdict in DISBELIEVED:
        return "disbelieved"
    return "best" if row is best else row.role


def _reach(deviations: Sequence[float]) -> float:
    """How far a scale goes for all rows: one row that is far noisier than the rest must not flatten them."""
    return max(LEAST_REACH, min(max(deviations), NOISIER * median(deviations)))


def _divisions(courses: Sequence[Sequence[sampled.Point]]) -> list[float]:
    """Where a round of fresh processes begins, by block numbers; the first is left out."""
    firsts: dict[int, int] = {}
    for point in (point for points in courses for point in points):
        firsts[point.round] = min(point.block, firsts.get(point.round, point.block))
    return [at - 0.5 for at in sorted(firsts.values())[1:]]


def _name(row: RowSamples, y: float, room: float = 2 * EDGE) -> Text:
    return Text(EDGE, y, shortened(row.row.name, WIDE - room), "name")


def _percent(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{units.percent(abs(share))}" if abs(share) > 1e-9 else "0 %"
