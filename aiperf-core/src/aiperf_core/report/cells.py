"""Grids of cells: the bytes of lines or the banks that the lanes of a warp access, the multiprocessors of a wave."""

from collections.abc import Sequence
from itertools import groupby

from aiperf_core.report import layout, svg
from aiperf_core.report.layout import BELOW, EDGE, STACKED, Link
from aiperf_core.report.result import Drawing, Span
from aiperf_core.report.svg import Path, Picture, Scale, Shape, Text, shortened, text_width

ROW, GAP = 15.0, 7.0  # height of a row, and the space below a grid
NAMES = 140.0  # width of the names of rows at most
HEAD = 17.0  # height of a line of a grid's name
_COLOURS = {"asked for": "s0", "fetched in vain": "s1", "filled": "s0", "partly filled": "s4"}


def draw(drawing: Drawing, _: Link | None, wide: float) -> Picture:
    """The picture of the kind `cells`: grids one below the other, which share the horizontal axis.

    A cell has its short name where there is room. A line at each border divides the columns.
    """
    kinds = {span.kind for span in drawing.spans}
    entries = [("square", f"mark {colour}", kind) for kind, colour in _COLOURS.items() if kind in kinds]
    shapes, top = layout.heading(drawing.title, entries, wide)
    if not drawing.spans:
        shapes.append(Text(EDGE, top + 14, layout.NOTHING, "note"))
        return Picture(wide, top + 30, drawing.title, drawing.message, shapes, drawing.kind)
    names = min(NAMES, max(text_width(span.lane) for span in drawing.spans)) + 8
    x = layout.scale(drawing.x, [], EDGE + names, wide - EDGE)
    y = top
    for group, spans in groupby(drawing.spans, key=lambda span: span.group):
        for line in layout.wrapped(group, (wide - 2 * EDGE) / layout.BOLD, most=4 if wide < STACKED else 2):
            shapes.append(Text(EDGE, y + 11, line, "strong", title=group))
            y += HEAD
        begin = y
        for lane, row in groupby(spans, key=lambda span: span.lane):
            shapes.append(Text(EDGE, y + ROW - 4, shortened(lane, names - 8), "label", title=lane))
            shapes += _row(list(row), x, y)
            y += ROW
        shapes += [svg.line(x(place), begin, x(place), y, "divider", name) for name, place in drawing.borders.items()]
        y += GAP
    shapes += svg.tick_labels(x, y + 8, layout.ticks(drawing.x, x, 5))
    shapes.append(Text(wide - EDGE, y + 24, shortened(layout.title_of(drawing.x), wide - 2 * EDGE), "note", "end"))
    return Picture(wide, y + BELOW - 8, drawing.title, drawing.message, shapes, drawing.kind)


def _row(spans: Sequence[Span], x: Scale, top: float) -> list[Shape]:
    """The cells of a row on the background of the whole row."""
    bottom = top + ROW - 2
    shapes: list[Shape] = [Path(_corners(x.left, x.right, top, bottom), "floor", closed=True)]
    for span in spans:
        left, right = x(span.start), x(span.start + span.length)
        colour = _COLOURS.get(span.kind, "s9")
        fits = bool(span.short) and text_width(span.short) <= right - left - 2
        tip = "" if fits else span.label  # half of the file otherwise
        shapes.append(Path(_corners(left, right, top, bottom), f"ridge {colour}", closed=True, title=tip))
        if fits:
            shapes.append(Text((left + right) / 2, bottom - 2, span.short, "name", "middle"))
    return shapes


def _corners(left: float, right: float, top: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
