"""The picture of a sweep: time, and the fraction of the speed of light, against a parameter.

The parameter with the most values is the horizontal axis; each combination of the others has a row of its own. All rows
share their scales. Rows that are not believed are left out, and the line of their implementation has a gap there.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, log_scale, shortened, text_width
from aiperf_core.render.sweep_table import at, shown
from aiperf_core.results.sweeps import Sweep, SweepRow

WIDE, HIGH = 720.0, 190.0  # of the picture, and of a plane
EDGE, LEFT, BETWEEN = 12.0, 62.0, 66.0  # space at the border, left of the first plane, and between two planes
ABOVE, BELOW = 34.0, 36.0  # space for the titles of a row of planes and of its axis
TICKS = 5
# A range that spans this factor has a logarithmic axis.
LOG = 8.0
# How far a bar may widen an axis, as a factor beyond the outermost value.
WIDEST_BAR = 3.0
# Pixels between the bars of neighbouring implementations at a point, and between the first and the last of them.
APART, SPREAD = 3.0, 18.0
FORMS = ("circle", "square", "triangle", "diamond")
Measure = Callable[[SweepRow], Estimate | None]


@frozen
class Plane:
    """A kind of plane: what it shows, how a value of its axis is labelled, and whether the axis may be logarithmic."""

    title: str
    of: Measure
    label: Callable[[float], str]
    log: bool


TIME = Plane("time of a call", lambda row: row.time_s, lambda value: units.seconds(value, 2), True)
SOL = Plane("fraction of SOL", lambda row: row.speed_of_light, units.percent, False)


def draw(sweeps: Sequence[Sweep], note: str = "") -> Picture:
    """The sweeps below each other. `note` tells where they were measured."""
    shapes: list[Shape] = []
    bottom = 0.0
    for sweep in sweeps:
        drawn, bottom = _drawn(sweep, note, bottom)
        shapes += drawn
    title = "Sweep of " + ", ".join(sweep.target for sweep in sweeps)
    return Picture(WIDE, bottom, title, " ".join(_told(sweep) for sweep in sweeps), shapes, "sweep")


def left_out(sweep: Sweep) -> list[str]:
    """The rows that the picture does not show, with the reason."""
    names = ((row, f"{row.point}:{row.implementation}" if row.implementation else row.point) for row in sweep.rows)
    return [f"{name}: {row.verdict.value}" for row, name in names if row.time_s is None]


def across(sweep: Sweep) -> str:
    """The parameter of the horizontal axis."""
    counts = {name: len(sweep.values(name)) for name in sweep.parameters}
    return max(sweep.parameters, key=lambda name: counts[name])


def _drawn(sweep: Sweep, note: str, top: float) -> tuple[list[Shape], float]:
    """The titles, the legend and the planes of a sweep, and the bottom of them."""
    name, rows = across(sweep), [row for row in sweep.rows if row.time_s is not None]
    looks = _looks(rows)
    title = (
        f"{sweep.target}: time and fraction of SOL against {name}"
        if _lit(rows)
        else f"{sweep.target}: time against {name}"
    )
    shapes: list[Shape] = [Text(EDGE, top + 24, shortened(title, WIDE - 2 * EDGE, 15), "title")]
    told = ", ".join(filter(None, (_facts(sweep), note)))
    shapes.append(Text(EDGE, top + 42, shortened(told, WIDE - 2 * EDGE, 10), "note"))
    entries = [(form, f"mark {colour}", implementation) for implementation, (form, colour) in looks.items()]
    key, top = svg.legend(entries, EDGE, WIDE - EDGE, top + 50)
    shapes += key
    planes = [TIME, SOL] if _lit(rows) else [TIME]
    # A point that failed takes no room of the axis.
    values = sorted({row.values[name] for row in rows})
    xs = _x_scale(values, planes)
    for others in _combinations(sweep, name):
        chosen = [row for row in rows if _others(row.values, name) == others]
        if others:
            shapes.append(Text(EDGE, top + 16, shortened(at(sweep, others), WIDE - 2 * EDGE), "label strong"))
            top += 16
        for plane, x in zip(planes, xs, strict=True):
            axis = svg.axis_below(
                x, top + ABOVE, top + ABOVE + HIGH, _x_ticks(sweep, name, values, x), f"{words(name)}{_kind(x)}"
            )
            y = _y_scale([plane.of(row) for row in rows], plane.log, top + ABOVE + HIGH, top + ABOVE)
            shapes += [*axis, *_plane(sweep, chosen, plane, name, x, y, looks)]
        top += ABOVE + HIGH + BELOW
    return shapes, top + 4


def _plane(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    plane: Plane,
    name: str,
    x: Scale,
    y: Scale,
    looks: dict[str, tuple[str, str]],
) -> list[Shape]:
    """The upright axis of a plane, and a line for each implementation."""
    # The title stands above the labels of the axis, where it has the width of the plane.
    ticks = [(tick, shortened(plane.label(tick), LEFT - EDGE, 10)) for tick in y.ticks(TICKS)]
    shapes = svg.axis_left(y, x.left, x.right, ticks, "")
    shapes.append(Text(x.left - 6, y.right - 10, f"{plane.title}{_kind(y)}", "note"))
    if plane is SOL and y.low <= 1 <= y.high:
        shapes.append(line(x.left, y(1), x.right, y(1), "light", "speed of light"))
    step = min(APART, SPREAD / max(len(looks) - 1, 1))
    for index, (implementation, (form, colour)) in enumerate(looks.items()):
        aside = step * (index - (len(looks) - 1) / 2)
        ours = [row for row in rows if row.implementation == implementation]
        for stretch in _stretches(sweep, ours, plane.of):
            places = [(x(row.values[name]) + aside, y(of.value)) for row, of in stretch]
            shapes.append(Path(places, f"course {colour}"))
            for (row, of), (across_at, up_at) in zip(stretch, places, strict=True):
                shapes.append(line(across_at, y(of.low), across_at, y(of.high), f"whisker {colour}"))
                shapes.append(svg.mark(across_at, up_at, 3.5, form, f"mark {colour}", _tip(sweep, row)))
    return shapes


def _stretches(sweep: Sweep, rows: Sequence[SweepRow], of: Measure) -> Iterator[list[tuple[SweepRow, Estimate]]]:
    """The points of a line in parts: a point without a figure divides it."""
    if not rows:
        return
    found, name = {tuple(row.values.values()): row for row in rows}, across(sweep)
    others = _others(rows[0].values, name)
    stretch: list[tuple[SweepRow, Estimate]] = []
    for values, _ in sweep.points:
        if _others(values, name) != others:
            continue
        row = found.get(tuple(values.values()))
        figure = of(row) if row else None
        if row is not None and figure is not None:
            stretch.append((row, figure))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


# --- scales


def _x_scale(values: Sequence[float], planes: Sequence[Plane]) -> list[Scale]:
    """The horizontal scale of each plane."""
    low, high = values[0], values[-1]
    log = low > 0 and high / low >= LOG
    pad = 0.08 * (high - low) or 0.5 * high or 1.0
    width = (WIDE - LEFT - EDGE - BETWEEN * (len(planes) - 1)) / len(planes)
    lefts = [LEFT + index * (width + BETWEEN) for index in range(len(planes))]
    if log:
        reach = (high / low) ** 0.08
        return [log_scale(low / reach, high * reach, left, left + width) for left in lefts]
    return [Scale(low - pad, high + pad, left, left + width) for left in lefts]


def _y_scale(figures: Sequence[Estimate | None], may_be_log: bool, bottom: float, top: float) -> Scale:
    found = [one for one in figures if one is not None]
    # A very wide interval must not flatten the lines: its bar ends at the edge of the plane.
    low = max(min(one.low for one in found), min(one.value for one in found) / WIDEST_BAR)
    high = min(max(one.high for one in found), max(one.value for one in found) * WIDEST_BAR)
    if may_be_log and high / low >= LOG:
        return log_scale(low / 1.2, high * 1.2, bottom, top)
    # The speed of light is shown unless all rows are far from it.
    return Scale(0.0, high * 1.06 if may_be_log or high < 0.5 else max(high * 1.06, 1.06), bottom, top)


def _x_ticks(sweep: Sweep, name: str, values: Sequence[float], x: Scale) -> list[tuple[float, str]]:
    """The measured values, as many as have room for their labels."""
    ticks: list[tuple[float, str]] = []
    free = x.left - 100.0
    for value in values:
        half = text_width(shown(sweep, name, value), 10) / 2
        # A label at an end of the axis reaches inwards.
        middle = min(max(x(value), x.left - 8 + half), x.right + 8 - half)
        if middle - half >= free:
            ticks.append((value, shown(sweep, name, value)))
            free = middle + half + 10
    return ticks


def _kind(scale: Scale) -> str:
    return " (log scale)" if scale.log else ""


# --- words and series


def _lit(rows: Sequence[SweepRow]) -> bool:
    return any(row.speed_of_light for row in rows)


def _looks(rows: Sequence[SweepRow]) -> dict[str, tuple[str, str]]:
    """The form and the colour of each implementation."""
    names = list(dict.fromkeys(row.implementation or "" for row in rows))
    return {name: (FORMS[i % len(FORMS)], svg.SERIES[i % len(svg.SERIES)]) for i, name in enumerate(names)}


def _others(values: dict[str, float], name: str) -> dict[str, float]:
    return {key: value for key, value in values.items() if key != name}


def _combinations(sweep: Sweep, name: str) -> list[dict[str, float]]:
    """The values of the other parameters, in ascending order; a single empty one for a sweep of one parameter."""
    found: list[dict[str, float]] = []
    for values, _ in sweep.points:
        if _others(values, name) not in found:
            found.append(_others(values, name))
    return found


def _facts(sweep: Sweep) -> str:
    devices = ", ".join(dict.fromkeys(one.device for one in sweep.results))
    tiers = ", ".join(dict.fromkeys(one.tier for one in sweep.results))
    return ", ".join(filter(None, (devices, f"tier {tiers}" if tiers else "", "bars: 95 % intervals")))


def _tip(sweep: Sweep, row: SweepRow) -> str:
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown()
    light = f", {units.percent(row.speed_of_light.value)} of SOL" if row.speed_of_light else ""
    return f"{row.implementation} at {at(sweep, row.values)}: {time.value} {time.interval}{light}"


def _told(sweep: Sweep) -> str:
    """The picture in words: for each implementation its time at the first and at the last point."""
    told = []
    for name in _looks(rows := [row for row in sweep.rows if row.time_s is not None]):
        first, *_, last = [row for row in rows if row.implementation == name] * 2
        ends = [f"{units.seconds(one.time_s.value)} at {at(sweep, one.values)}" for one in (first, last) if one.time_s]
        told.append(f"{name} {' and '.join(dict.fromkeys(ends))}")
    return f"sweep of {sweep.target} over {', '.join(sweep.parameters)}: {'; '.join(told) or 'no row is believed'}."
