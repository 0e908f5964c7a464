"""The picture of a sweep: time, and the fraction of the speed of light, against a parameter.

The parameter with the most values is the horizontal axis; each combination of the others has a row of its own. All rows
share their scales. Rows that are not believed are left out, and the line of their implementation has a gap there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.render import layout, plane, svg
from aiperf_core.render.layout import EDGE, WIDE
from aiperf_core.render.svg import Picture, Scale, Shape, Text, log_scale, shortened, text_width
from aiperf_core.render.sweep_table import at, shown
from aiperf_core.results.sweeps import Sweep, SweepRow

HIGH = 190.0  # of a plane
LEFT, BETWEEN = 62.0, 66.0  # space left of the first plane, and between two planes
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
# The form and the colour of each implementation.
Looks = Mapping[str, tuple[str, str]]


@frozen
class Kind:
    """A kind of plane: what it shows, how a value of its axis is labelled, and whether the axis may be logarithmic."""

    title: str
    of: Measure
    label: Callable[[float], str]
    log: bool


TIME = Kind("time of a call", lambda row: row.time_s, lambda value: units.seconds(value, 2), True)
SOL = Kind("fraction of SOL", lambda row: row.speed_of_light, units.percent, False)


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
    kinds = [TIME, SOL] if _lit(rows) else [TIME]
    what = "time and fraction of SOL" if _lit(rows) else "time"
    shapes: list[Shape] = [
        Text(EDGE, top + 24, shortened(f"{sweep.target}: {what} against {name}", WIDE - 2 * EDGE, 15), "title")
    ]
    told = ", ".join(filter(None, (_facts(sweep), note)))
    shapes.append(Text(EDGE, top + 42, shortened(told, WIDE - 2 * EDGE), "note"))
    entries = [(form, f"mark {colour}", implementation) for implementation, (form, colour) in looks.items()]
    key, top = svg.legend(entries, EDGE, WIDE - EDGE, top + 50)
    shapes += key
    for others in _combinations(sweep, name):
        chosen = [row for row in rows if _others(row.values, name) == others]
        if others:
            shapes.append(Text(EDGE, top + 16, shortened(at(sweep, others), WIDE - 2 * EDGE), "label strong"))
            top += 16
        width = (WIDE - LEFT - EDGE - BETWEEN * (len(kinds) - 1)) / len(kinds)
        for index, kind in enumerate(kinds):
            left = LEFT + index * (width + BETWEEN)
            shapes += plane.pane(
                plane.Pane(
                    x=_x_axis(sweep, name, rows),
                    y=_y_axis(kind, rows),
                    courses=_courses(sweep, chosen, kind, name, looks),
                    edge=left - LEFT + EDGE,
                    left=left,
                    right=left + width,
                    top=top + ABOVE,
                    bottom=top + ABOVE + HIGH,
                    horizon=(1.0, "light", "speed of light") if kind is SOL else None,
                    most_ticks=(TICKS, TICKS),
                )
            )
        top += ABOVE + HIGH + BELOW
    return shapes, top + 4


def _courses(sweep: Sweep, rows: Sequence[SweepRow], kind: Kind, name: str, looks: Looks) -> list[plane.Course]:
    """The stretches of each implementation, its bars beside those of the others."""
    step = min(APART, SPREAD / max(len(looks) - 1, 1))
    return [
        plane.Course(
            name=implementation,
            colour=colour,
            spots=[
                plane.Spot(
                    x=row.values[name],
                    y=of.value,
                    y_ends=(of.low, of.high),
                    tip=_tip(sweep, row),
                    form=form,
                    kind=f"mark {colour}",
                )
                for row, of in stretch
            ],
            line="course",
            aside=step * (index - (len(looks) - 1) / 2),
        )
        for index, (implementation, (form, colour)) in enumerate(looks.items())
        for stretch in _stretches(sweep, [row for row in rows if row.implementation == implementation], kind.of)
    ]


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


# --- axes


def _x_axis(sweep: Sweep, name: str, rows: Sequence[SweepRow]) -> layout.Axis:
    """The axis of the parameter. A point that failed takes no room of it."""
    values = sorted({row.values[name] for row in rows})
    low, high = values[0], values[-1]
    log = low > 0 and high / low >= LOG

    def scale(left: float, right: float) -> Scale:
        if log:
            reach = (high / low) ** 0.08
            return log_scale(low / reach, high * reach, left, right)
        pad = 0.08 * (high - low) or 0.5 * high or 1.0
        return Scale(low - pad, high + pad, left, right)

    return layout.Axis(
        title=f"{words(name)}{_kind(log)}", scale=scale, ticks=lambda x, _: _x_ticks(sweep, name, values, x)
    )


def _y_axis(kind: Kind, rows: Sequence[SweepRow]) -> layout.Axis:
    found = [one for one in map(kind.of, rows) if one is not None]
    # A very wide interval must not flatten the lines: its bar ends at the edge of the plane.
    low = max(min(one.low for one in found), min(one.value for one in found) / WIDEST_BAR)
    high = min(max(one.high for one in found), max(one.value for one in found) * WIDEST_BAR)
    log = kind.log and high / low >= LOG

    def scale(bottom: float, top: float) -> Scale:
        if log:
            return log_scale(low / 1.2, high * 1.2, bottom, top)
        # The speed of light is shown unless all rows are far from it.
        return Scale(0.0, high * 1.06 if kind.log or high < 0.5 else max(high * 1.06, 1.06), bottom, top)

    return layout.Axis(
        title=f"{kind.title}{_kind(log)}",
        scale=scale,
        ticks=lambda y, most: [(tick, kind.label(tick)) for tick in y.ticks(most)],
    )


def _x_ticks(sweep: Sweep, name: str, values: Sequence[float], x: Scale) -> list[tuple[float, str]]:
    """The measured values, as many as have room for their labels."""
    ticks: list[tuple[float, str]] = []
    free = x.left - 100.0
    for value in values:
        half = text_width(shown(sweep, name, value)) / 2
        # A label at an end of the axis reaches inwards.
        middle = min(max(x(value), x.left - 8 + half), x.right + 8 - half)
        if middle - half >= free:
            ticks.append((value, shown(sweep, name, value)))
            free = middle + half + 10
    return ticks


def _kind(log: bool) -> str:
    return " (log scale)" if log else ""


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
