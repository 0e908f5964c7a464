"""The pictures of a result, drawn as the core's pictures are.

A file for each further kind of picture; this one has those in a plane: `intervals`, `lines`, `scatter`, `waterfall` and
`bars`. Colours tell series apart; verdicts and other marks are told apart by their form too.
"""

import math
from collections.abc import Callable, Sequence

from aiperf_analysis.render import figures
from aiperf_analysis.result import Axis, Drawing, Point, Series
from aiperf_core.render import svg
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, log_scale, shortened, text_width

WIDE, HIGH = 720.0, 320.0
EDGE, LEFT, BELOW = 12.0, 68.0, 40.0
LINE = 20.0  # height of a line of `intervals`
FORMS = ("circle", "square", "triangle", "diamond")
_MARKS = {"front": "circle", "dominated": "square", "undecided": "diamond", "SUSPECT": "triangle"}


def picture(drawing: Drawing) -> Picture:
    """The picture. Raises ValueError for a kind without a drawer."""
    return _DRAWERS[drawing.kind](drawing)


def _head(drawing: Drawing) -> tuple[list[Shape], float]:
    """The title and the legend, and where the plane begins."""
    shapes: list[Shape] = [Text(EDGE, 24, shortened(drawing.title, WIDE - 2 * EDGE, 15), "title")]
    if len(drawing.series) < 2:
        return shapes, 40.0
    entries = [(form, f"mark {colour}", one.name) for one, form, colour in _looks(drawing.series)]
    legend, bottom = svg.legend(entries, EDGE, WIDE - EDGE, 34)
    return [*shapes, *legend], bottom + 8


def _looks(series: Sequence[Series]) -> list[tuple[Series, str, str]]:
    return [(one, FORMS[index % len(FORMS)], svg.SERIES[index % len(svg.SERIES)]) for index, one in enumerate(series)]


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


def _ticks(scale: Scale, axis: Axis, most: int) -> list[tuple[float, str]]:
    values = scale.ticks(most)
    for digits in range(2, 6):
        labels = [_label(value, axis, digits) for value in values]
        if len({*labels}) == len(labels):
            break
    return list(zip(values, labels, strict=True))


def _label(value: float, axis: Axis, digits: int = 2) -> str:
    """A tick's label; of a time with at least this number of digits, so that neighbours differ."""
    if axis.unit == "s":
        from aiperf_core import units

        return units.seconds(value, digits) if value > 0 else "0"
    text = figures.number(value, axis.unit)
    if "." in text:
        head, _, tail = text.partition(" ")
        text = f"{head.rstrip('0').rstrip('.')} {tail}".rstrip()
    return text


def _tip(point: Point, x: Axis, y: Axis) -> str:
    parts = [point.label, f"{x.title}: {figures.whole(point.x)}", f"{y.title}: {figures.whole(point.y)}", point.mark]
    return ", ".join(part for part in parts if part)


def _plane(drawing: Drawing) -> Picture:
    """Points in a plane with whiskers, joined where the series says so."""
    shapes, top = _head(drawing)
    bottom = top + HIGH
    points = [point for one in drawing.series for point in one.points]
    shown = [point for point in points if point.x.value is not None and point.y.value is not None]
    x = _scale([*_values(shown, "x"), *drawing.borders.values()], drawing.x, LEFT, WIDE - EDGE - 8)
    y = _scale(_values(shown, "y"), drawing.y, bottom, top + 14)
    shapes += svg.axis_below(x, top + 14, bottom, _ticks(x, drawing.x, 7), drawing.x.title)
    shapes += svg.axis_left(y, LEFT, WIDE - EDGE, _ticks(y, drawing.y, 6), "")
    shapes.append(Text(EDGE, top + 4, shortened(drawing.y.title, WIDE - 2 * EDGE, 10), "note"))
    for name, at in drawing.borders.items():
        shapes += [line(x(at), top + 14, x(at), bottom, "divider", name), Text(x(at) + 3, top + 24, name, "note")]
    for one, form, colour in _looks(drawing.series):
        places = [
            (point, x(point.x.value), y(point.y.value))
            for point in one.points
            if point.x.value is not None and point.y.value is not None
        ]
        if one.joined:
            shapes.append(Path([(left, up) for _, left, up in places], f"course {colour}"))
        for point, left, up in places:
            tip = _tip(point, drawing.x, drawing.y)
            if point.y.low is not None and point.y.high is not None:
                shapes.append(line(left, y(point.y.low), left, y(point.y.high), f"whisker {colour}"))
            if point.x.low is not None and point.x.high is not None and point.x.high > point.x.low:
                shapes.append(line(x(point.x.low), up, x(point.x.high), up, f"whisker {colour}"))
            kind = "hollow" if point.mark in ("dominated", "undecided") else "mark"
            shapes.append(svg.mark(left, up, 3.5, _MARKS.get(point.mark, form), f"{kind} {colour}", tip))
    shapes += _labels([(point, x(point.x.value or 0), y(point.y.value or 0)) for point in shown])
    return Picture(WIDE, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


def _labels(places: Sequence[tuple[Point, float, float]]) -> list[Shape]:
    """Names beside points where they fit without covering each other."""
    taken: list[tuple[float, float, float]] = []
    shapes: list[Shape] = []
    for point, x, y in places:
        width = text_width(point.label, 10)
        for left in (x + 7, x - 7 - width):
            inside = left > LEFT and left + width < WIDE - EDGE
            free = all(abs(y - other) > 11 or left > end or left + width < start for start, end, other in taken)
            if inside and free and point.label:
                taken.append((left, left + width, y))
                shapes.append(Text(left, y + 3, point.label, "note"))
                break
    return shapes


def _intervals(drawing: Drawing) -> Picture:
    """A line for each point: its name, a mark and the interval on the horizontal axis."""
    shapes, top = _head(drawing)
    points = [(point, colour) for one, _, colour in _looks(drawing.series) for point in one.points]
    names = min(240.0, max([text_width(point.label) for point, _ in points], default=0.0)) + EDGE + 10
    values = [*_values([point for point, _ in points], "x"), *([1.0] if drawing.x.unit == "1" else [])]
    x = _scale(values, drawing.x, names, WIDE - EDGE - 100)
    bottom = top + LINE * max(len(points), 1) + 6
    shapes += svg.axis_below(x, top, bottom, _ticks(x, drawing.x, 6), drawing.x.title)
    if drawing.x.unit == "1" and x.low <= 1 <= x.high:
        shapes.append(line(x(1), top, x(1), bottom, "one", "no difference"))
    for index, (point, colour) in enumerate(points):
        y = top + LINE * (index + 0.5) + 3
        shapes.append(Text(EDGE, y + 4, shortened(point.label, names - EDGE - 8), "label"))
        if point.x.value is None:
            shapes.append(Text(names, y + 4, shortened(point.x.reason or "not measured", 300, 10), "note"))
            continue
        if point.x.low is not None and point.x.high is not None:
            shapes.append(line(x(point.x.low), y, x(point.x.high), y, f"whisker {colour}"))
        shapes.append(svg.mark(x(point.x.value), y, 3.5, "circle", f"mark {colour}", _tip(point, drawing.x, drawing.y)))
        shapes.append(Text(WIDE - EDGE, y + 4, f"{figures.text(point.x)} {point.mark}".rstrip(), "tick", "end"))
    return Picture(WIDE, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


def _bars(drawing: Drawing) -> Picture:
    """A bar for each point from zero to its value on the horizontal axis, with the interval; or steps of a ladder."""
    shapes, top = _head(drawing)
    points = [(point, colour) for one, _, colour in _looks(drawing.series) for point in one.points]
    names = min(240.0, max([text_width(point.label) for point, _ in points], default=0.0)) + EDGE + 10
    falls = drawing.kind == "waterfall"
    ends: list[tuple[float, float]] = []
    for point, _ in points:
        value = point.x.value or 0.0
        # Of a ladder, `y` is where the step begins.
        ends.append((point.y.value if falls and point.y.value is not None else 0.0, value))
    values = [value for pair in ends for value in pair] + _values([point for point, _ in points], "x")
    x = _scale(values, drawing.x, names, WIDE - EDGE - 80)
    bottom = top + LINE * max(len(points), 1) + 6
    shapes += svg.axis_below(x, top, bottom, _ticks(x, drawing.x, 6), drawing.x.title)
    for index, ((point, colour), (begin, end)) in enumerate(zip(points, ends, strict=True)):
        y = top + LINE * (index + 0.5) + 3
        shapes.append(Text(EDGE, y + 4, shortened(point.label, names - EDGE - 8), "label"))
        if point.x.value is None:
            shapes.append(Text(names, y + 4, shortened(point.x.reason or "not measured", 300, 10), "note"))
            continue
        left, right = sorted((x(begin) if begin or not drawing.x.log else x.left, x(end)))
        corners = [(left, y - 6), (right, y - 6), (right, y + 6), (left, y + 6)]
        shapes.append(Path(corners, f"ridge {colour}", closed=True, title=_tip(point, drawing.x, drawing.y)))
        shapes.append(line(x(end), y - 6, x(end), y + 6, f"median {colour}"))
        if point.x.low is not None and point.x.high is not None:
            shapes.append(line(x(point.x.low), y, x(point.x.high), y, f"whisker {colour}"))
        shapes.append(Text(WIDE - EDGE, y + 4, f"{figures.text(point.x)} {point.mark}".rstrip(), "tick", "end"))
    return Picture(WIDE, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


_DRAWERS: dict[str, Callable[[Drawing], Picture]] = {
    "intervals": _intervals,
    "lines": _plane,
    "scatter": _plane,
    "bars": _bars,
    "waterfall": _bars,
}
