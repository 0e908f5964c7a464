"""The pictures of a report: the interval of a speedup, times, their spread, their course, and a roofline."""

import math
from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.render.labels import Box, Label, place
from aiperf_core.render.report import samples as sampled
from aiperf_core.render.report.drawing import (
    LETTER,
    Scale,
    dot,
    line,
    log_scale,
    path,
    picture,
    shortened,
    text,
    titled,
)
from aiperf_core.render.report.samples import Taken
from aiperf_core.render.roofline import Mark, Panel
from aiperf_core.results.models import DISBELIEVED, Row

WIDE = 340.0  # of a picture that stands beside others
EDGE = 8.0
LANE = 30.0
RIDGE = 15.0  # height of a density
AXIS = 22.0
# On a scale that starts at zero, a time five times less is still a length that one can compare.
LINEAR = 5.0
STRIP_WIDE, STRIP_HIGH = 150.0, 18.0
NOISIER = 3.0
FEWEST_PERCENT = 0.002  # of deviation on either side, or the finest noise would fill the picture


def kind_of(row: Row, best: Row | None) -> str:
    """The class that gives a row its colour."""
    if row.verdict in DISBELIEVED:
        return "disbelieved"
    return "best" if row is best else row.role


def speedup_scale(estimates: Sequence[Estimate]) -> Scale:
    """One logarithmic scale for the strips of all targets, with 1 on it."""
    low = min([one.low for one in estimates if one.low > 0], default=1.0)
    high = max([one.high for one in estimates if one.high > 0], default=1.0)
    return log_scale(min(low / 1.1, 0.8), max(high * 1.1, 1.25), 6, STRIP_WIDE - 6)


def speedup_strip(estimate: Estimate, scale: Scale, verdict: str) -> Markup:
    """The interval of one speedup, beside 1."""
    middle = STRIP_HIGH / 2
    shown = units.ratio_estimate(estimate)
    parts = [
        line(scale(1), 1, scale(1), STRIP_HIGH - 1, "one"),
        line(scale(estimate.low), middle, scale(estimate.high), middle, f"range v-{verdict}"),
        dot(scale(estimate.value), middle, 3.6, f"v-{verdict}"),
    ]
    return picture(STRIP_WIDE, STRIP_HIGH, f"speedup {shown.value} {shown.interval}", parts, "strip")


# --- of one target


def times(taken: Sequence[Taken], best: Row | None) -> Markup:
    """For each row the median, the middle half and the middle 98 % of its samples, and the time that light would take."""
    quantiles = [one.quantiles(0.01, 0.25, 0.5, 0.75, 0.99) for one in taken]
    lights = [one.row.speed_of_light.time_s for one in taken if one.row.speed_of_light]
    light = min(lights, default=None)
    low, high = min(one[0] for one in quantiles), max(one[4] for one in quantiles)
    log = high / min(one[2] for one in quantiles) > LINEAR
    if light is not None and (not log or light > low / 30):
        low, high = min(low, light), max(high, light)
    scale = Scale(low / 1.15 if log else 0.0, high * (1.15 if log else 1.04), EDGE, WIDE - EDGE, log)
    bottom = LANE * len(taken) + 4
    parts = _axis(scale, bottom, [(one, units.seconds(one, 2)) for one in scale.ticks(5)])
    if light is not None and scale.low <= light <= scale.high:
        parts.append(titled(line(scale(light), 0, scale(light), bottom, "light"), f"light: {units.seconds(light)}"))
    for index, (one, (p01, p25, p50, p75, p99)) in enumerate(zip(taken, quantiles, strict=True)):
        middle = LANE * index + 21
        kind = kind_of(one.row, best)
        parts += [
            _name(one, index),
            line(scale(p01), middle, scale(p99), middle, f"whisker {kind}"),
            line(scale(p25), middle, scale(p75), middle, f"range {kind}"),
            dot(scale(p50), middle, 3.8, kind),
        ]
    each = ", ".join(f"{one.row.name} {units.seconds(one.median)}" for one in taken)
    return picture(WIDE, bottom + AXIS, f"median times of a call: {each}", parts)


def spread(taken: Sequence[Taken], best: Row | None) -> Markup:
    """For each row how its samples lie around their median, and below it the quartiles of each round."""
    ends = [
        (low / one.median - 1, high / one.median - 1) for one in taken for low, high in [one.quantiles(0.025, 0.975)]
    ]
    low, high = -_reach([-one for one, _ in ends]), _reach([one for _, one in ends])
    scale = Scale(low, high, EDGE, WIDE - EDGE)
    rounds = [sampled.rounds(one) for one in taken]
    top, parts = 0.0, []
    for one, quartiles in zip(taken, rounds, strict=True):
        kind = kind_of(one.row, best)
        floor = top + 12 + RIDGE
        shape = sampled.density(one, low, high)
        step = (scale.right - scale.left) / max(len(shape), 1)
        ridge = [(scale.left + (index + 0.5) * step, floor - share * RIDGE) for index, share in enumerate(shape)]
        if ridge:
            closed = [(ridge[0][0], floor), *ridge, (ridge[-1][0], floor)]
            parts.append(path(closed, f"ridge {kind}", closed=True))
        parts.append(text(EDGE, top + 9, shortened(one.row.name, WIDE - 100), "name"))
        outside = sampled.beyond(one, low, high)
        count = f"{len(one.times):,} samples" + (f", {outside:,} beyond" if outside else "")
        parts.append(text(WIDE - EDGE, top + 9, count, "note", "end"))
        for number, (p25, p50, p75) in enumerate(quartiles if len(quartiles) > 1 else []):
            y = floor + 3 + 3 * number
            parts += [line(scale(p25), y, scale(p75), y, f"round {kind}"), dot(scale(p50), y, 1.3, kind)]
        top = floor + 3 * (len(quartiles) if len(quartiles) > 1 else 0) + 6
    axis = _axis(scale, top, [(one, _percent(one)) for one in scale.ticks(5)])
    each = ", ".join(f"{one.row.name} {_percent(a)} to {_percent(b)}" for one, (a, b) in zip(taken, ends, strict=True))
    return picture(
        WIDE, top + AXIS, f"spread of the samples around their median, 95 % of them: {each}", [*axis, *parts]
    )


def course(taken: Sequence[Taken], best: Row | None) -> Markup:
    """For each row the medians of its blocks in the order taken; blocks with clocks held down are marked, rounds divided."""
    courses = [sampled.course(one) for one in taken]
    last = max(points[-1].block for points in courses)
    scale = Scale(0, max(last, 1), EDGE + 2, WIDE - EDGE - 2)
    reach = _reach([sorted(abs(point.deviation) for point in points)[int(0.98 * len(points))] for points in courses])
    bottom = LANE * len(taken) + 4
    parts = _axis(scale, bottom, [(one, f"{one:,.0f}") for one in scale.ticks(5)])
    parts += [line(scale(at), 0, scale(at), bottom, "divider") for at in _divisions(courses)]
    held = 0
    for index, (one, points) in enumerate(zip(taken, courses, strict=True)):
        kind = kind_of(one.row, best)
        up = Scale(-reach, reach, LANE * index + 29, LANE * index + 13)
        parts += [_name(one, index), line(scale.left, up(0), scale.right, up(0), "zero")]
        parts.append(path([(scale(point.block), up(point.deviation)) for point in points], f"course {kind}"))
        parts += [dot(scale(point.block), up(point.deviation), 2.4, "held") for point in points if point.throttled]
        held += sum(point.throttled for point in points)
    alt = f"medians of blocks in the order taken, up to {_percent(reach)} from the median of all; "
    alt += f"clocks were held down in {held}" if held else "clocks were never seen held down"
    return picture(WIDE, bottom + AXIS, alt, parts)


def _reach(deviations: Sequence[float]) -> float:
    """How far a scale goes for all rows: one row that is far noisier than the rest must not flatten them."""
    return max(FEWEST_PERCENT, min(max(deviations), NOISIER * median(deviations)))


def _divisions(courses: Sequence[Sequence[sampled.Point]]) -> list[float]:
    """Where a round of fresh processes begins, by block numbers; the first is left out."""
    firsts: dict[int, int] = {}
    for point in (point for points in courses for point in points):
        firsts[point.round] = min(point.block, firsts.get(point.round, point.block))
    return [at - 0.5 for at in sorted(firsts.values())[1:]]


def _name(one: Taken, index: int) -> Markup:
    return text(EDGE, LANE * index + 11, shortened(one.row.name, WIDE - 2 * EDGE), "name")


def _axis(scale: Scale, y: float, ticks: Sequence[tuple[float, str]]) -> list[Markup]:
    parts = []
    for value, label in ticks:
        x = scale(value)
        half = len(label) * LETTER / 2
        anchor = "start" if x - half < scale.left - EDGE else "end" if x + half > scale.right + EDGE else "middle"
        parts += [line(x, 0, x, y, "grid"), text(x, y + 14, label, "tick", anchor)]
    return parts


def _percent(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{units.percent(abs(share))}" if abs(share) > 1e-9 else "0 %"


# --- roofline

ROOF_WIDE, ROOF_HIGH = 720.0, 400.0
ROOF_LEFT, ROOF_RIGHT, ROOF_TOP, ROOF_BOTTOM = 62.0, 12.0, 14.0, 40.0
NAMED = 24  # marks; of more, names would hide them


def roofline(panel: Panel) -> Markup:
    """The roofs of a device and the marks below them. With many marks only the best of each target is drawn."""
    few = len(panel.marks) <= NAMED
    marks = [mark for mark in panel.marks if few or mark.kind == "best"] or list(panel.marks)
    x, y = _plane(panel, marks)
    parts = []
    for value in x.ticks(8):
        parts += [line(x(value), y.right, x(value), y.left, "grid")]
        parts += [text(x(value), y.left + 15, f"{value:g}", "tick", "middle")]
    for value in y.ticks(7):
        parts += [line(x.left, y(value), x.right, y(value), "grid")]
        parts += [text(x.left - 6, y(value) + 4, _round(value), "tick", "end")]
    parts.append(text(x.left - 54, ROOF_TOP - 3, "FLOP/s", "note"))
    parts.append(text(x.right, ROOF_HIGH - 6, "FLOP per byte that must be moved", "note", "end"))
    taken: list[Box] = []
    roofs, written = _roofs(panel, x, y)
    parts += roofs
    taken += written
    for mark in marks:
        shape = dot(x(mark.intensity), y(mark.flop_per_s), 5 if mark.kind == "best" else 4, f"mark {mark.kind}")
        parts.append(titled(shape, _told(mark)))
    if len(marks) <= NAMED:
        parts += _named(marks, x, y, taken)
    each = "; ".join(map(_told, marks[:NAMED]))
    more = f"; and {len(marks) - NAMED} more" if len(marks) > NAMED else ""
    return picture(ROOF_WIDE, ROOF_HIGH, f"roofline of {panel.device}: {each}{more}", parts, "roof")


def _plane(panel: Panel, marks: Sequence[Mark]) -> tuple[Scale, Scale]:
    """The scales: the marks, the corners of the roof near them, and room for names."""
    slope = panel.memory.slope or 1.0
    levels = [roof.level for roof in panel.others if roof.level]
    xs = [mark.intensity for mark in marks] + [level / slope for level in levels]
    ys = [mark.flop_per_s for mark in marks] + levels + [mark.intensity * slope for mark in marks]
    across = log_scale(min(xs) / 6, max(xs) * 12, ROOF_LEFT, ROOF_WIDE - ROOF_RIGHT)
    return across, log_scale(min(ys) / 3, max(ys) * 3, ROOF_HIGH - ROOF_BOTTOM, ROOF_TOP)


def _roofs(panel: Panel, x: Scale, y: Scale) -> tuple[list[Markup], list[Box]]:
    """The roofs with their names, and what they cover."""
    top = max((roof.level for roof in panel.others if roof.level), default=y.high)
    steepest = max(roof.slope for roof in (panel.memory, *panel.others) if roof.slope)
    parts: list[Markup] = []
    boxes: list[Box] = []
    for roof in (panel.memory, *panel.others):
        if roof.slope:
            left, right = max(x.low, y.low / roof.slope), min(x.high, top / roof.slope)
            ends = (x(left), y(left * roof.slope), x(right), y(right * roof.slope))
            parts.append(line(*ends, "roof" if roof is panel.memory else "roof second"))
            angle = math.atan2(ends[1] - ends[3], ends[2] - ends[0])
            along = 0.06 * math.hypot(ends[2] - ends[0], ends[1] - ends[3])
            at_x, at_y = ends[0] + along * math.cos(angle), ends[1] - along * math.sin(angle)
            label = text(at_x, at_y - 6, roof.label, "label", turned=math.degrees(angle))
        elif roof.level:
            ends = (x(max(x.low, roof.level / steepest)), y(roof.level), x.right, y(roof.level))
            parts.append(line(*ends, "roof"))
            label = text(x.right - 2, ends[1] - 6, roof.label, "label", "end")
            boxes.append(Box(x.right - len(roof.label) * LETTER, -ends[1] + 3, x.right, -ends[1] + 16))
        else:
            continue
        parts.append(label)
        boxes += _pieces(*ends)
    return parts, boxes


def _pieces(x1: float, y1: float, x2: float, y2: float) -> list[Box]:
    """What a line covers, in small pieces."""
    count = max(1, math.ceil(math.hypot(x2 - x1, y2 - y1) / 6))
    shares = [index / count for index in range(count + 1)]
    middles = [(x1 + share * (x2 - x1), -y1 - share * (y2 - y1)) for share in shares]
    return [Box(x - 3, y - 3, x + 3, y + 3) for x, y in middles]


def _named(marks: Sequence[Mark], x: Scale, y: Scale, taken: Sequence[Box]) -> list[Markup]:
    """Each mark's name, where nothing else is. Heights count upwards there, downwards here."""
    several = len({mark.target for mark in marks}) > 1
    names = [shortened(_label(mark, several), 260) for mark in marks]
    labels = [
        Label(x(mark.intensity), -y(mark.flop_per_s), len(name) * LETTER, mark.target)
        for mark, name in zip(marks, names, strict=True)
    ]
    page = Box(x.left, -y.left, x.right, -y.right)
    parts = []
    for mark, name, spot in zip(marks, names, place(labels, 13, page, taken), strict=True):
        at_x, at_y = x(mark.intensity), y(mark.flop_per_s)
        if abs(-spot.y - at_y) > 5:
            parts.append(line(at_x, at_y, spot.x + (3 if spot.turned else -3), -spot.y, "leader"))
        kind = "label strong" if mark.kind == "best" else "label"
        parts.append(text(spot.x, -spot.y + 4, name, kind, "end" if spot.turned else "start"))
    return parts


def _round(rate: float) -> str:
    """A round number with its prefix: `30 T`."""
    scale, prefix = next(((scale, prefix) for scale, prefix in units.RATE_PREFIXES if rate >= scale), (1.0, ""))
    return f"{rate / scale:g} {prefix}".rstrip()


def _label(mark: Mark, several: bool) -> str:
    name = f"{mark.target.rpartition('.')[2]}:{mark.name}" if several else mark.name
    return name if mark.fraction is None else f"{name} {units.percent(mark.fraction)}"


def _told(mark: Mark) -> str:
    fraction = "" if mark.fraction is None else f", {units.percent(mark.fraction)} of light"
    rate = units.rate(mark.flop_per_s, "FLOP/s")
    return f"{mark.target}:{mark.name} {rate} at {mark.intensity:.3g} FLOP/B{fraction}"
