"""What flame graphs and timelines share: the colour of a kind, a box with its label, the axis, the legend."""

from collections.abc import Iterable

from aiperf_analysis.result import Drawing, Span
from aiperf_analysis.traces.paths import short
from aiperf_core import units
from aiperf_core.render import svg
from aiperf_core.render.svg import Path, Scale, Shape, Text, shortened, text_width

WIDE, EDGE, ROW = 960.0, 12.0, 18.0
_TEXT = 10.0
_KERNELS = ("compute", "communication")
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


def colour(kind: str) -> str:
    """The class of a kind; unknown kinds have one colour."""
    return _COLOURS.get(kind, "s9")


def head(drawing: Drawing) -> tuple[list[Shape], float]:
    """The title, the legend of the kinds, and where the plane begins."""
    shapes: list[Shape] = [Text(EDGE, 24, shortened(drawing.title, WIDE - 2 * EDGE, 15), "title")]
    kinds = [kind for kind in _COLOURS if any(span.kind == kind for span in drawing.spans)]
    entries = [("square", f"mark {colour(kind)}", kind) for kind in kinds]
    legend, bottom = svg.legend(entries, EDGE, WIDE - EDGE, 34)
    return [*shapes, *legend], bottom + 8 if entries else 40.0


def scale(spans: Iterable[Span], left: float) -> Scale:
    """The horizontal scale, from 0 or the first span to the end of the last."""
    ends = [span.start + span.length for span in spans]
    low = min([0.0, *(span.start for span in spans)])
    high = max(ends, default=1.0)
    return Scale(low, high if high > low else low + 1.0, left, WIDE - EDGE)


def ticks(x: Scale) -> list[tuple[float, str]]:
    """The labels of a scale in seconds; all in one unit."""
    return [(value, units.seconds(value, 3) if value > 0 else "0") for value in x.ticks(8)]


def box(span: Span, x: Scale, top: float, whole: float) -> list[Shape]:
    """A span as a box, with its label where it fits. `whole`: seconds that shares in the tip are of."""
    left, right = x(span.start), max(x(span.start + span.length), x(span.start) + 0.4)
    bottom = top + ROW - 2
    share = f", {100 * span.length / whole:.3g} %" if whole else ""
    tip = f"{span.label}: {units.seconds(span.length) if span.length > 0 else '0'}{share}"
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    shapes: list[Shape] = [Path(corners, f"ridge {colour(span.kind)}", closed=True, title=tip)]
    room = right - left - 6
    if room >= 24:
        name = short(span.label) if span.kind in _KERNELS else span.label
        label = shortened(name, room, _TEXT)
        if len(label) > 3 or label == name:
            shapes.append(Text(left + 3, top + 12, label, "note", title=tip))
    return shapes


def widest(labels: Iterable[str], most: float) -> float:
    """The width for labels at the left, in pixels."""
    return min(most, max((text_width(label) for label in labels), default=0.0)) + EDGE + 8
