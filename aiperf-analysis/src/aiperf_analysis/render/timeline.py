"""A timeline: a lane for each stream or thread, time from left to right."""

from aiperf_analysis.render.spans import EDGE, ROW, WIDE, box, head, scale, ticks, widest
from aiperf_analysis.result import Drawing
from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.svg import Picture, Shape, Text, line, shortened

MOST_LANES = 48
_NAMES = 220.0  # pixels


def picture(drawing: Drawing) -> Picture:
    """The picture."""
    shapes, top = head(drawing)
    lanes = list(dict.fromkeys(span.lane for span in drawing.spans))
    if not lanes:
        shapes.append(Text(EDGE, top + 14, "nothing to show", "note"))
        return Picture(WIDE, top + 30, drawing.title, drawing.message, shapes, drawing.kind)
    kept = lanes[:MOST_LANES]
    left = widest((words(lane) for lane in kept), _NAMES)
    x = scale(drawing.spans, left)
    bottom = top + len(kept) * (ROW + 4) + 4
    shapes += svg.axis_below(x, top, bottom, ticks(x), drawing.x.title)
    places = {lane: top + index * (ROW + 4) + 4 for index, lane in enumerate(kept)}
    for lane, y in places.items():
        shapes.append(Text(EDGE, y + 12, shortened(lane, left - EDGE - 8), "label", title=words(lane)))
    boxes: list[Shape] = []
    for span in drawing.spans:
        if span.lane in places:
            boxes += box(span, x, places[span.lane], 0.0)
    for name, at in drawing.borders.items():
        boxes += [line(x(at), top, x(at), bottom, "divider", name), Text(x(at) + 3, top + 8, name, "note")]
    if len(lanes) > MOST_LANES:
        boxes.append(Text(EDGE, bottom + 27, f"{len(lanes) - MOST_LANES} more lanes are not drawn", "note"))
    return Picture(WIDE, bottom + 40, drawing.title, drawing.message, [*shapes, *boxes], drawing.kind)
