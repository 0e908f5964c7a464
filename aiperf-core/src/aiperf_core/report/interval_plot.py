"""A lane for each point: its name, its interval or its bar on one horizontal axis, and its figure with the verdict.

A picture of at least `STACKED` pixels has names at the left and figures at the right; a narrower picture has them above
each lane, so that they stay readable on a telephone.
"""

import math
from collections.abc import Sequence

from attrs import frozen

from aiperf_core.names import words
from aiperf_core.report import cell_text, layout, svg
from aiperf_core.report.layout import BELOW, EDGE, NAME_HIGH, STACKED, Link
from aiperf_core.report.result import Drawing, Point
from aiperf_core.report.svg import Path, Picture, Scale, Shape, Text, line, shortened, text_width

ABOVE = 34.0  # the axis with its title above the lanes
LANE, TALL = 22.0, 38.0  # height of a lane, beside and below its name
MOST = 60  # lanes; of more, those farthest from the reference are drawn
LONGEST = 240.0  # width of a name
CAP = 7.0  # half the height of the ends of an interval
LONG = 450.0  # height of the lanes, from which on the axis stands below them too
FIGURES = 0.36  # of the width, for the texts of figures


@frozen(kw_only=True)
class _Lane:
    """A point with the name of its group, the class of its colour, and its name and figure as texts."""

    point: Point
    group: str
    colour: str
    name: str
    text: str

    @property
    def is_drawn(self) -> bool:
        """True where there is a figure."""
        return layout.has_value(self.point.x)


def draw(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """The picture of the kinds `intervals`, `bars` and `waterfall`. Of many lanes a note says how many are left out."""
    every = _lanes(drawing)
    reference = 1.0 if drawing.kind == "waterfall" or (drawing.kind == "intervals" and drawing.x.unit == "1") else None
    lanes = _farthest(every, reference)
    stacked = wide < STACKED
    shapes, top = layout.heading(drawing.title, (), wide)
    above = top + ABOVE
    top = above + NAME_HIGH * layout.border_rows(drawing)
    names = min(LONGEST, max([text_width(lane.name[:80]) * layout.BOLD for lane in lanes], default=0.0)) + EDGE + 10
    figures = min(max([text_width(lane.text) for lane in lanes if lane.is_drawn], default=0.0), FIGURES * wide)
    left, right = (EDGE + 4, wide - EDGE - 4) if stacked else (names, wide - EDGE - figures - 10)
    x = layout.scale(drawing.x, _values(drawing, reference), left, right)
    rows, bottom = _rows(lanes, top, TALL if stacked else LANE)
    shapes += layout.bands(drawing, x, top, bottom)
    ticks, title = layout.ticks(drawing.x, x, 4 if stacked else 6), layout.title_of(drawing.x)
    ends = [(above - 5, above - 20), *([(bottom + 14, bottom + 29)] if bottom - top > LONG else [])]
    shapes += svg.grid(x, top, bottom, ticks)
    for labels, below in ends:
        shapes += svg.tick_labels(x, labels, ticks)
        shapes.append(Text(wide - EDGE, below, shortened(title, wide - 2 * EDGE), "note", "end"))
    if reference is not None and x.low <= reference <= x.high:
        shapes.append(line(x(reference), top, x(reference), bottom, "one", "no difference"))
    shapes += layout.borders(drawing, x, top, bottom)
    for row, y in rows:
        if isinstance(row, str):
            shapes.append(Text(EDGE, y + 14, shortened(row, (wide - 2 * EDGE) / layout.BOLD), "strong"))
        else:
            shapes += _texts(row, x, y, wide, names)
            shapes += _glyph(row, drawing, x, y + (27 if stacked else LANE / 2 + 3), link)
    if not lanes:
        shapes.append(Text((left + right) / 2, top + 16, layout.NOTHING, "label", "middle"))
    bottom += BELOW if len(ends) > 1 else EDGE
    if len(lanes) < len(every):
        more = f"{len(every) - len(lanes):,} more lines are not drawn"
        shapes.append(Text(EDGE, bottom, more, "note"))
        bottom += 14
    return Picture(wide, bottom, drawing.title, drawing.message, shapes, drawing.kind)


def _lanes(drawing: Drawing) -> list[_Lane]:
    colours = layout.colours(drawing.series)
    return [
        _Lane(
            point=point,
            group=words(series.name),
            colour=colour,
            name=words(point.label),
            text=_text(point, drawing),
        )
        for series, colour in zip(drawing.series, colours, strict=True)
        for point in series.points
    ]


def _text(point: Point, drawing: Drawing) -> str:
    """The figure with its interval, a share beside it, and the verdict; or why there is no figure."""
    if not layout.has_value(point.x) and (cell_text.reason(point.x) or cell_text.text(point.x) == cell_text.NONE):
        return words(point.x.reason or "not measured")
    share = (
        f"{drawing.y.title} {cell_text.text(point.y)}" if drawing.y.unit == "%" and point.y.value is not None else ""
    )
    figure = f"{cell_text.whole(point.x)}, {share}" if share else cell_text.whole(point.x)
    return f"{figure}{',' if share and point.mark else ''} {words(point.mark)}".rstrip()


def _values(drawing: Drawing, reference: float | None) -> list[float]:
    points = [point for series in drawing.series for point in series.points]
    values = [*layout.values(point.x for point in points), *drawing.borders.values()]
    if reference is not None:
        values.append(reference)
    if drawing.kind == "waterfall":  # where its steps begin
        values += layout.values(point.y for point in points)
    elif drawing.kind == "bars" and not drawing.x.log:
        values.append(0.0)
    return values


def _farthest(lanes: Sequence[_Lane], reference: float | None) -> list[_Lane]:
    if len(lanes) <= MOST:
        return list(lanes)
    drawn = sorted(lane.point.x.value or 0.0 for lane in lanes if lane.is_drawn)
    middle = reference if reference is not None else drawn[len(drawn) // 2] if drawn else 0.0

    def distance(value: float) -> float:
        return abs(math.log(value / middle)) if value > 0 and middle > 0 else abs(value - middle)

    ranked = sorted(
        range(len(lanes)), key=lambda at: (not lanes[at].is_drawn, -distance(lanes[at].point.x.value or 0.0))
    )
    return [lanes[at] for at in sorted(ranked[:MOST])]


def _rows(lanes: Sequence[_Lane], top: float, high: float) -> tuple[list[tuple[_Lane | str, float]], float]:
    """The lanes and the headings of their groups with the top of each; and the bottom of all."""
    has_groups = len({lane.group for lane in lanes}) > 1
    rows: list[tuple[_Lane | str, float]] = []
    y, group = top, ""
    for lane in lanes:
        if has_groups and lane.group != group:
            y += 8.0 if rows else 0.0
            rows.append((lane.group, y))
            y, group = y + 20.0, lane.group
        rows.append((lane, y))
        y += high
    return rows, max(y, top + LANE) + 6


def _texts(lane: _Lane, x: Scale, top: float, wide: float, names: float) -> list[Shape]:
    """The name and the figure of a lane; in a narrow picture the figure may take the room that the name leaves."""
    strong, kind = lane.point.mark == "best", "label" if lane.is_drawn else "note"
    if wide < STACKED:
        text = shortened(lane.text, max(0.62 * wide, wide - 3 * EDGE - text_width(lane.name)))
        name = shortened(lane.name, (wide - 3 * EDGE - text_width(text)) / layout.BOLD, keeps_end=True)
        return [
            Text(EDGE, top + 16, name, "strong" if strong else "name"),
            Text(wide - EDGE, top + 16, text, kind, "end"),
        ]
    y = top + LANE / 2 + 7
    name = shortened(lane.name, (names - EDGE - 8) / (layout.BOLD if strong else 1.0), keeps_end=True)
    label = Text(EDGE, y, name, "label strong" if strong else "label")
    if not lane.is_drawn:
        return [label, Text(names, y, shortened(lane.text, wide - names - EDGE), kind)]
    return [label, Text(wide - EDGE, y, shortened(lane.text, wide - EDGE - x.right - 4), kind, "end")]


def _glyph(lane: _Lane, drawing: Drawing, x: Scale, y: float, link: Link | None) -> list[Shape]:
    """The interval with its mark, or the bar from zero, or from where the step of a ladder begins."""
    point, value = lane.point, lane.point.x.value
    if value is None or not lane.is_drawn:
        return []
    form, kind = layout.look(point, "circle", lane.colour)
    tip, href, ends = f"{lane.name}: {lane.text}", layout.href(point, link), layout.ends(point.x)
    colour = kind.split()[-1] if drawing.kind == "intervals" else point.colour or lane.colour
    shapes: list[Shape] = [line(x(ends[0]), y, x(ends[1]), y, f"whisker {colour}")] if ends else []
    if drawing.kind == "intervals":
        if point.middle:
            shapes.append(line(x(point.middle[0]), y, x(point.middle[1]), y, f"range {colour}"))
        # The ends of an interval that is narrower than its mark stand above and below the mark.
        shapes += [line(x(end), y - CAP, x(end), y + CAP, f"whisker {colour}") for end in ends or ()]
        return [*shapes, svg.mark(x(value), y, 4.0, form, kind, tip, href)]
    begin = x(point.y.value or 0.0) if drawing.kind == "waterfall" else x.left if drawing.x.log else x(0.0)
    left, right = sorted((begin, x(value)))
    corners = [(left, y - 6), (right, y - 6), (right, y + 6), (left, y + 6)]
    bar = Path(corners, f"ridge {colour}", closed=True, title=tip, href=href)
    return [bar, line(x(value), y - 6, x(value), y + 6, f"median {colour}"), *shapes]
