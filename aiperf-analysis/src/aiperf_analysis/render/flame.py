"""A flame graph: the outermost operator at the top, what it contains below it; the width is the time."""

from aiperf_analysis.render.spans import EDGE, ROW, WIDE, box, head, scale, ticks
from aiperf_analysis.result import Drawing
from aiperf_core.render import svg
from aiperf_core.render.svg import Picture, Text

MOST_DEPTH = 40  # rows; what lies deeper is left out, and said so


def picture(drawing: Drawing) -> Picture:
    """The picture."""
    shapes, top = head(drawing)
    if not drawing.spans:
        shapes.append(Text(EDGE, top + 14, "nothing to show", "note"))
        return Picture(WIDE, top + 30, drawing.title, drawing.message, shapes, drawing.kind)
    x = scale(drawing.spans, EDGE)
    depths = [int(span.lane) for span in drawing.spans]
    rows = min(max(depths) + 1, MOST_DEPTH)
    bottom = top + rows * ROW + 4
    shapes += svg.axis_below(x, top, bottom, ticks(x), drawing.x.title)
    whole = sum(span.length for span in drawing.spans if span.lane == "0")
    for span, depth in zip(drawing.spans, depths, strict=True):
        if depth < MOST_DEPTH:
            shapes += box(span, x, top + depth * ROW + 2, whole)
    left_out = sum(depth >= MOST_DEPTH for depth in depths)
    if left_out:
        shapes.append(Text(EDGE, bottom + 27, f"{left_out} pieces below row {MOST_DEPTH} are not drawn", "note"))
    return Picture(WIDE, bottom + 40, drawing.title, drawing.message, shapes, drawing.kind)
