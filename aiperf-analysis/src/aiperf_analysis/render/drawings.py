"""The pictures of a result, drawn as the core's pictures are.

A file for each further kind of picture; this one has those in a plane: `intervals`, `lines`, `scatter`, `waterfall` and
`bars`. Colours tell series apart; verdicts and other marks are told apart by their form too.
"""

import math
from collections.abc import Callable, Sequence

from aiperf_analysis.render import figures, flame, timeline
from aiperf_analysis.result import Axis, Drawing, Figure, Origin, Point, Series
from aiperf_core.render import forest, svg
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, log_scale, shortened, text_width
from aiperf_core.render.thinning import kept

WIDE, HIGH = 720.0, 320.0
EDGE, LEFT, BELOW = 12.0, 68.0, 40.0
LINE = 20.0  # height of a bar with its space
BOLD = 1.15  # how much wider letters of a title are than others
MOST_POINTS = 600  # of a series; of more, the extremes are drawn and the table has all
FORMS = ("circle", "square", "triangle", "diamond")
_MARKS = {"front": "circle", "dominated": "square", "undecided": "diamond", "SUSPECT": "triangle"}


# From a point's origin to the address where its row is shown.
Link = Callable[[Origin], str]


def picture(drawing: Drawing, link: Link | None = None) -> Picture:
    """The picture. `link` gives the address of the row of a point; without it, points lead nowhere.

    Raises KeyError for a kind without a drawer.
    """
    if drawing.kind == "flame":
        return flame.picture(drawing)
    if drawing.kind == "timeline":
        return timeline.picture(drawing)
    return _DRAWERS[drawing.kind](drawing, link)


def _has_place(point: Point) -> bool:
    """Whether a point has both figures."""
    return all(one.value is not None and math.isfinite(one.value) for one in (point.x, point.y))


def _thinned(series: Series) -> list[Point]:
    """The points that have a place; of very many, the extremes of equal pieces."""
    found = [point for point in series.points if _has_place(point)]
    return [found[at] for at in kept([point.y.value or 0.0 for point in found], MOST_POINTS)]


def _href(point: Point, link: Link | None) -> str:
    return link(point.origin) if link and point.origin else ""


def _head(drawing: Drawing) -> tuple[list[Shape], float]:
    """The title and the legend, and where the plane begins."""
    shapes: list[Shape] = [Text(EDGE, 24, shortened(drawing.title, (WIDE - 2 * EDGE) / BOLD, 15), "title")]
    if len(drawing.series) < 2:
        return shapes, 40.0
    entries = [(*_look(one, form, colour), one.name) for one, form, colour in _looks(drawing.series)]
    legend, bottom = svg.legend(entries, EDGE, WIDE - EDGE, 34)
    return [*shapes, *legend], bottom + 8


def _looks(series: Sequence[Series]) -> list[tuple[Series, str, str]]:
    return [(one, FORMS[index % len(FORMS)], svg.SERIES[index % len(svg.SERIES)]) for index, one in enumerate(series)]


def _look(series: Series, form: str, colour: str) -> tuple[str, str]:
    """The form and the class of a series in the legend: those of its points, where these have one mark."""
    marks = {point.mark for point in series.points}
    mark = marks.pop() if len(marks) == 1 else ""
    return _MARKS.get(mark, form), f"{_kind(mark)} {colour}"


def _kind(mark: str) -> str:
    """The class of a point: hollow for one that is not proven."""
    return "hollow" if mark in ("dominated", "undecided") else "mark"


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
    if axis.unit != "B" or scale.high <= 0:
        values = scale.ticks(most)
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
    text = figures.number(value, axis.unit)
    if "." in text:
        head, _, tail = text.partition(" ")
        text = f"{head.rstrip('0').rstrip('.')} {tail}".rstrip()
    return text


def _tip(point: Point, x: Axis, y: Axis) -> str:
    parts = [point.label, f"{x.title}: {figures.whole(point.x)}", f"{y.title}: {figures.whole(point.y)}", point.mark]
    return ", ".join(part for part in parts if part)


def _plane(drawing: Drawing, link: Link | None) -> Picture:
    """Points in a plane with whiskers, joined where the series says so."""
    shapes, top = _head(drawing)
    bottom = top + HIGH
    points = [point for one in drawing.series for point in one.points]
    shown = [point for point in points if _has_place(point)]
    y = _scale(_values(shown, "y"), drawing.y, bottom, top + 14)
    ticks = _ticks(y, drawing.y, 6)
    begin = max([LEFT, *(text_width(label, 10) + EDGE + 8 for _, label in ticks)])
    x = _scale([*_values(shown, "x"), *drawing.borders.values()], drawing.x, begin, WIDE - EDGE - 8)
    shapes += svg.axis_below(x, top + 14, bottom, _ticks(x, drawing.x, 7), drawing.x.title)
    shapes += svg.axis_left(y, begin, WIDE - EDGE, ticks, "")
    if not shown:
        shapes.append(Text((begin + WIDE) / 2, (top + bottom) / 2, "no figures to draw", "label", "middle"))
    shapes.append(Text(EDGE, top + 4, shortened(drawing.y.title, WIDE - 2 * EDGE, 10), "note"))
    for name, at in drawing.borders.items():
        shapes += [line(x(at), top + 14, x(at), bottom, "divider", name), Text(x(at) + 3, top + 24, name, "note")]
    for one, form, colour in _looks(drawing.series):
        places = [(point, x(point.x.value or 0.0), y(point.y.value or 0.0)) for point in _thinned(one)]
        if one.joined:
            shapes.append(Path([(left, up) for _, left, up in places], f"course {colour}"))
        for point, left, up in places:
            if point.mark == "fit":
                continue
            tip = _tip(point, drawing.x, drawing.y)
            if point.y.low is not None and point.y.high is not None:
                shapes.append(line(left, y(point.y.low), left, y(point.y.high), f"whisker {colour}"))
            if point.x.low is not None and point.x.high is not None and point.x.high > point.x.low:
                shapes.append(line(x(point.x.low), up, x(point.x.high), up, f"whisker {colour}"))
            mark = _MARKS.get(point.mark, form)
            href = _href(point, link)
            shapes.append(svg.mark(left, up, 3.5, mark, f"{_kind(point.mark)} {colour}", tip, href))
    shapes += _labels([(point.label, _reach(point.x, x), y(point.y.value or 0)) for point in shown], begin)
    return Picture(WIDE, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


def _reach(value: Figure, scale: Scale) -> tuple[float, float]:
    """The places of a mark's ends with its whiskers."""
    at = scale(value.value or 0)
    if value.low is None or value.high is None:
        return at - 4, at + 4
    return min(at - 4, scale(value.low)), max(at + 4, scale(value.high))


def _labels(places: Sequence[tuple[str, tuple[float, float], float]], edge: float) -> list[Shape]:
    """Names beside points, where they cover neither a mark nor each other. `edge` is the left end of the plane."""
    taken = [(left, right, y) for _, (left, right), y in places]
    shapes: list[Shape] = []
    for label, (begin, end), y in places:
        width = text_width(label, 10)
        for left in (end + 4, begin - 4 - width):
            inside = left > edge and left + width < WIDE - EDGE
            free = all(abs(y - other) > 11 or left > right or left + width < start for start, right, other in taken)
            if inside and free and label:
                taken.append((left, left + width, y))
                shapes.append(Text(left, y + 3, label, "note"))
                break
    return shapes


def _intervals(drawing: Drawing, link: Link | None) -> Picture:
    """A line for each point: its name, a mark and the interval on the horizontal axis."""
    lines = [
        forest.Line(
            name=point.label,
            value=point.x.value,
            low=point.x.low,
            high=point.x.high,
            told=(figures.text(point.x), figures.interval(point.x)),
            verdict=point.mark,
            reason=point.x.reason or "",
            group=one.name if len(drawing.series) > 1 else "",
            kind=colour,
            href=_href(point, link),
        )
        for one, _, colour in _looks(drawing.series)
        for point in one.points
    ]
    is_ratio = drawing.x.unit == "1"
    values = [*_values([point for one in drawing.series for point in one.points], "x"), *([1.0] if is_ratio else [])]
    frame = forest.Frame(
        title=drawing.title,
        message=drawing.message,
        axis=drawing.x.title,
        scale=lambda left, right: _scale(values, drawing.x, left, right),
        ticks=lambda scale, most: _ticks(scale, drawing.x, most),
        reference=1.0 if is_ratio else None,
        kind=drawing.kind,
    )
    return forest.draw(lines, frame)


def _bars(drawing: Drawing, link: Link | None) -> Picture:
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
        tip = _tip(point, drawing.x, drawing.y)
        shapes.append(Path(corners, f"ridge {colour}", closed=True, title=tip, href=_href(point, link)))
        shapes.append(line(x(end), y - 6, x(end), y + 6, f"median {colour}"))
        if point.x.low is not None and point.x.high is not None:
            shapes.append(line(x(point.x.low), y, x(point.x.high), y, f"whisker {colour}"))
        shapes.append(Text(WIDE - EDGE, y + 4, f"{figures.text(point.x)} {point.mark}".rstrip(), "tick", "end"))
    return Picture(WIDE, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


_DRAWERS: dict[str, Callable[[Drawing, Link | None], Picture]] = {
    "intervals": _intervals,
    "lines": _plane,
    "scatter": _plane,
    "bars": _bars,
    "waterfall": _bars,
}
