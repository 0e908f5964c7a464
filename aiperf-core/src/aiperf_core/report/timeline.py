"""Spans of time as boxes: a timeline with a lane for each stream or thread, and a flame graph."""

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.report import layout, svg
from aiperf_core.report.layout import BELOW, EDGE, STACKED, Link
from aiperf_core.report.result import Axis, Drawing, Span
from aiperf_core.report.svg import Path, Picture, Scale, Shape, Text, shortened, text_width

ROW = 18.0
MOST_LANES = 48
MOST_DEPTH = 40  # rows of a flame graph; what lies deeper is left out, and said so
NAMES = 220.0  # width of the names of lanes at most
_COLOURS = {
    "compute": "s0",
    "communication": "s1",
    "copy": "s2",
    "operator": "s5",
    "range": "s8",
    "launch": "s3",
    "synchronisation": "s4",
    "joined": "s9",
}


def draw(drawing: Drawing, _: Link | None, wide: float) -> Picture:
    """The picture of the kinds `timeline` and `flame`: time from left to right, a lane or a depth below the other.

    In a narrow timeline names are above their lanes. The widths of a flame graph are shares of its outermost spans.
    """
    kinds = {span.kind for span in drawing.spans}
    entries = [("square", f"mark {colour}", kind) for kind, colour in _COLOURS.items() if kind in kinds]
    shapes, top = layout.heading(drawing.title, entries, wide)
    is_flame, stacked = drawing.kind == "flame", wide < STACKED
    lanes = sorted({span.lane for span in drawing.spans}, key=int) if is_flame else list(
        dict.fromkeys(span.lane for span in drawing.spans)
    )  # fmt: skip
    kept = lanes[: MOST_DEPTH if is_flame else MOST_LANES]
    if not kept:
        shapes.append(Text(EDGE, top + 14, "nothing to show", "note"))
        return Picture(wide, top + 30, drawing.title, drawing.message, shapes, drawing.kind)
    named = 0.0 if is_flame or stacked else min(NAMES, max(text_width(words(lane)) for lane in kept)) + 8
    space = 0.0 if is_flame else 17.0 if stacked else 4.0  # above a lane
    bottom = top + len(kept) * (ROW + space) + 4
    x = layout.scale(_axis(drawing), [], EDGE + named, wide - EDGE)
    shapes += svg.axis_below(x, top, bottom, layout.ticks(drawing.x, x, 4 if stacked else 8))
    shapes.append(Text(wide - EDGE, bottom + 29, shortened(drawing.x.title, wide - 2 * EDGE), "note", "end"))
    places = {lane: top + index * (ROW + space) + max(space, 2.0) for index, lane in enumerate(kept)}
    if not is_flame:
        for lane, y in places.items():
            label = shortened(lane, wide - 2 * EDGE if stacked else named - 8)
            shapes.append(Text(EDGE, y + (-5 if stacked else 12), label, "label", title=words(lane)))
    whole = sum(span.length for span in drawing.spans if span.lane == "0") if is_flame else 0.0
    for span in drawing.spans:
        if span.lane in places:
            shapes += _box(span, x, places[span.lane], whole)
    shapes += layout.borders(drawing, x, top, bottom)
    if len(lanes) > len(kept):
        what = f"rows below row {MOST_DEPTH}" if is_flame else f"{len(lanes) - MOST_LANES} more lanes"
        shapes.append(Text(EDGE, bottom + 29, f"{what} are not drawn", "note"))
    return Picture(wide, bottom + BELOW, drawing.title, drawing.message, shapes, drawing.kind)


def _axis(drawing: Drawing) -> Axis:
    """The axis from 0 or the first span to the end of the last."""
    low = min([0.0, *(span.start for span in drawing.spans)])
    high = max(span.start + span.length for span in drawing.spans)
    return Axis(title=drawing.x.title, unit=drawing.x.unit, ends=(low, high))


def _box(span: Span, x: Scale, top: float, whole: float) -> list[Shape]:
    """A span as a box, with its name where it fits. `whole`: seconds that shares in the tip are of; 0 for none."""
    left = x(span.start)
    right = min(max(x(span.start + span.length), left + 0.4), x.right)
    bottom, colour = top + ROW - 2, _COLOURS.get(span.kind, "s9")
    share = f", {100 * span.length / whole:.3g} %" if whole else ""
    tip = f"{span.label}: {units.seconds(span.length) if span.length > 0 else '0'}{share}"
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    shapes: list[Shape] = [Path(corners, f"ridge {colour}", closed=True, title=tip)]
    room = right - left - 6
    if room >= 24:
        name = words(span.short or span.label)
        label = shortened(name, room)
        if len(label) > 3 or label == name:
            shapes.append(Text(left + 3, top + 12, label, "note", title=tip))
    return shapes
