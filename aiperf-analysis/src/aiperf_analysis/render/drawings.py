"""The pictures of a result, drawn by the core's modules `forest`, `plane`, `bars` and `timeline`.

Colours tell series apart; verdicts and other marks are told apart by their form too.
"""

import math
from collections.abc import Callable, Sequence

from aiperf_core.render import bars, forest, layout, marks, plane, svg, timeline
from aiperf_core.render.layout import NARROW, WIDE
from aiperf_core.render.svg import Picture, Scale, log_scale
from aiperf_core.report import cell_text
from aiperf_core.report.result import Axis, Drawing, Figure, Origin, Point, Series

__all__ = ["NARROW", "WIDE", "Link", "axis", "picture"]

FORMS = ("circle", "square", "triangle", "diamond")
# Marks of a plane that are no verdicts: their form and their class.
_MARKS = {
    "front": ("circle", "mark"),
    "dominated": ("square", "hollow"),
    "undecided": ("diamond", "hollow"),
    "fit": ("line", "mark"),
}
FIT, FRONT = "fit", "front"
_KERNELS = ("compute", "communication")

# From a point's origin to the address where its row is shown.
Link = Callable[[Origin], str]


def picture(drawing: Drawing, link: Link | None = None, wide: float = WIDE) -> Picture:
    """The picture.

    link: gives the address of the row of a point; without it, points lead nowhere.
    wide: its width in pixels, `WIDE` or `NARROW`.

    Raises KeyError for a kind without a drawer.
    """
    return _DRAWERS[drawing.kind](drawing, link, wide)


def _href(point: Point, link: Link | None) -> str:
    return link(point.origin) if link and point.origin else ""


def _looks(series: Sequence[Series]) -> list[tuple[Series, str, str]]:
    """Each series with its form and the class of its colour: that of its points where they have one."""
    return [
        (one, FORMS[index % len(FORMS)], _shared(one) or svg.SERIES[index % len(svg.SERIES)])
        for index, one in enumerate(series)
    ]


def _shared(one: Series) -> str:
    found = {point.colour for point in one.points}
    return found.pop() if len(found) == 1 else ""


def _look(series: Series, form: str) -> tuple[str, str]:
    """The form and the class of a series in the legend: those of its points, where these have one mark."""
    found = {point.mark for point in series.points}
    return _MARKS.get(found.pop() if len(found) == 1 else "", (form, "mark"))


def _values(points: Sequence[Point], axis: str) -> list[float]:
    found = []
    for point in points:
        one = getattr(point, axis)
        found += [value for value in (one.value, one.low, one.high) if value is not None and math.isfinite(value)]
    return found


def _scale(values: Sequence[float], axis: Axis, left: float, right: float) -> Scale:
    """The scale of an axis with a margin at both ends; that of a ratio contains 1."""
    if axis.log:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = min(positive), max(positive)
        margin = max((high / low) ** 0.06, 1.02)
        return log_scale(low / margin, high * margin, left, right)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return Scale(low if low == 0 else low - margin, high + margin, left, right)


def axis(values: Sequence[float], of: Axis) -> layout.Axis:
    """The axis for these values, with round ticks in its unit."""
    title = f"{of.title}, logarithmic" if of.log and "logarithmic" not in of.title else of.title
    return layout.Axis(
        title=title,
        scale=lambda left, right: _scale(values, of, left, right),
        ticks=lambda scale, most: _ticks(scale, of, most),
    )


def _ticks(scale: Scale, axis: Axis, most: int) -> list[tuple[float, str]]:
    if axis.unit != "B" or scale.high <= 0:
        values = [one for one in scale.ticks(most) if axis.unit != "count" or one == round(one)] or scale.ticks(most)
        for digits in range(2, 6):
            labels = [_label(value, axis, digits) for value in values]
            if len({*labels}) == len(labels):
                break
        return list(zip(values, labels, strict=True))
    if scale.log:
        first, last = math.ceil(math.log2(scale.low) - 1e-9), math.floor(math.log2(scale.high) + 1e-9)
        every = max(1, -(-(last - first + 1) // most))
        return [(2.0**power, _label(2.0**power, axis)) for power in range(first, last + 1, every)]
    # Round numbers of KiB or MiB, not of bytes.
    unit = 1024.0 ** max(0, math.floor(math.log(scale.high, 1024)))
    found = Scale(scale.low / unit, scale.high / unit, 0.0, 1.0).ticks(most)
    return [(value * unit, _label(value * unit, axis)) for value in found]


def _label(value: float, axis: Axis, digits: int = 2) -> str:
    """A tick's label; of a time with at least this number of digits, so that neighbours differ."""
    if axis.unit == "s":
        from aiperf_core import units

        return units.seconds(value, digits) if value > 0 else "0"
    text = cell_text.number(value, axis.unit)
    if "." in text:
        head, _, tail = text.partition(" ")
        text = f"{head.rstrip('0').rstrip('.')} {tail}".rstrip()
    return text


def _tip(point: Point, x: Axis, y: Axis) -> str:
    parts = [
        point.label,
        f"{x.title}: {cell_text.whole(point.x)}",
        f"{y.title}: {cell_text.whole(point.y)}",
        point.mark,
    ]
    return ", ".join(part for part in parts if part)


def _ends(one: Figure) -> tuple[float, float] | None:
    """The interval, where it has a length."""
    if one.low is None or one.high is None or not one.high > one.low:
        return None
    return one.low, one.high


def _plane(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """Points in a plane with whiskers, joined where the series says so; the points of a front are joined in steps."""
    points = [point for one in drawing.series for point in one.points]
    shown = [one for one in points if all(of.value is not None and math.isfinite(of.value) for of in (one.x, one.y))]
    return plane.draw(
        plane.Plane(
            title=drawing.title,
            message=drawing.message,
            x=axis([*_values(shown, "x"), *drawing.borders.values()], drawing.x),
            y=axis(_values(shown, "y"), drawing.y),
            courses=[_course(*look, drawing, link) for look in _looks(drawing.series)],
            borders=drawing.borders,
            wide=wide,
            kind=drawing.kind,
            most=plane.OVER_TIME if drawing.kind == "lines" else (plane.MOST, plane.FEWER),
        )
    )


def _course(one: Series, form: str, colour: str, drawing: Drawing, link: Link | None) -> plane.Course:
    is_front = bool(one.points) and all(point.mark == FRONT for point in one.points)
    marked = any(point.mark != FIT for point in one.points)
    return plane.Course(
        name=one.name,
        colour=colour,
        look=_look(one, form),
        line="course" if one.joined else "front" if is_front else "",
        marked=marked,
        steps=is_front,
        spots=[_spot(point, form, colour, drawing, link) for point in one.points],
    )


def _spot(point: Point, form: str, colour: str, drawing: Drawing, link: Link | None) -> plane.Spot:
    nothing = float("nan")
    look = _MARKS.get(point.mark) or marks.VERDICTS.get(point.mark) or (form, "mark")
    return plane.Spot(
        x=nothing if point.x.value is None else point.x.value,
        y=nothing if point.y.value is None else point.y.value,
        x_ends=_ends(point.x),
        y_ends=_ends(point.y),
        label=point.label,
        tip=_tip(point, drawing.x, drawing.y),
        form=look[0],
        kind=look[1] if " v-" in look[1] else f"{look[1]} {point.colour or colour}",
        href=_href(point, link),
    )


def _intervals(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """A line for each point: its name, a mark and the interval on the horizontal axis."""
    lines = [
        forest.Line(
            name=point.label,
            value=point.x.value,
            low=point.x.low,
            high=point.x.high,
            told=(cell_text.text(point.x), cell_text.interval(point.x)),
            verdict=point.mark,
            reason=point.x.reason or "",
            group=one.name if len(drawing.series) > 1 else "",
            look=("circle", f"mark {point.colour or colour}"),
            href=_href(point, link),
        )
        for one, _, colour in _looks(drawing.series)
        for point in one.points
    ]
    is_ratio = drawing.x.unit == "1"
    values = [*_values([point for one in drawing.series for point in one.points], "x"), *([1.0] if is_ratio else [])]
    found = axis(values, drawing.x)
    frame = forest.Frame(
        title=drawing.title,
        message=drawing.message,
        axis=found.title,
        scale=found.scale,
        ticks=found.ticks,
        reference=1.0 if is_ratio else None,
        wide=wide,
        kind=drawing.kind,
    )
    return forest.draw(lines, frame)


def _bars(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """A bar for each point from zero to its value on the horizontal axis, with the interval; or steps of a ladder."""
    falls = drawing.kind == "waterfall"
    points = [(point, colour) for one, _, colour in _looks(drawing.series) for point in one.points]
    values = _values([point for point, _ in points], "x")
    values += [] if drawing.x.log else [0.0]
    # Of a ladder, `y` is where the step begins.
    values += _values([point for point, _ in points], "y") if falls else []
    found = [
        bars.Bar(
            name=point.label,
            value=point.x.value,
            begin=point.y.value if falls and point.y.value is not None else None if drawing.x.log else 0.0,
            ends=_ends(point.x),
            told=(
                point.x.reason or "not measured"
                if point.x.value is None
                else f"{cell_text.text(point.x)} {point.mark}".rstrip()
            ),
            tip=_tip(point, drawing.x, drawing.y),
            colour=point.colour or colour,
            href=_href(point, link),
        )
        for point, colour in points
    ]
    legend = [(*_look(one, "square"), colour, one.name) for one, _, colour in _looks(drawing.series)]
    return bars.draw(
        bars.Bars(
            title=drawing.title,
            message=drawing.message,
            axis=axis(values, drawing.x),
            bars=found,
            legend=[(form, f"{looks} {colour}", name) for form, looks, colour, name in legend],
            reference=1.0 if falls else None,
            wide=wide,
            kind=drawing.kind,
        )
    )


def _pieces(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """The pieces of a timeline or of a flame graph. They have no rows to lead to."""
    del link
    from aiperf_analysis.traces.paths import short

    pieces = [
        timeline.Piece(
            name=one.label,
            short=short(one.label) if one.kind in _KERNELS else one.label,
            lane=one.lane,
            start=one.start,
            length=one.length,
            kind=one.kind,
        )
        for one in drawing.spans
    ]
    frame = timeline.Frame(
        title=drawing.title, message=drawing.message, axis=drawing.x.title, borders=drawing.borders, wide=wide
    )
    return (timeline.flame if drawing.kind == "flame" else timeline.timeline)(pieces, frame)


_DRAWERS: dict[str, Callable[[Drawing, Link | None, float], Picture]] = {
    "intervals": _intervals,
    "lines": _plane,
    "scatter": _plane,
    "bars": _bars,
    "waterfall": _bars,
    "flame": _pieces,
    "timeline": _pieces,
}
