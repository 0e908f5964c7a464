"""Pieces of time as boxes: a timeline with a lane for each stream or thread, and a flame graph."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.layout import BELOW, EDGE, STACKED, WIDE, heading
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, shortened, text_width

ROW = 18.0
MOST_LANES = 48
MOST_DEPTH = 40  # rows of a flame graph; what lies deeper is left out, and said so
NAMES, FEW = 220.0, 96.0  # width of the names of lanes at most, in a wide and in a narrow picture
NOTHING = "nothing to show"
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


@frozen(kw_only=True)
class Piece:
    """A piece of time: its name, the short name within its box, its lane, start and length in seconds, its kind.

    Of a flame graph the lane is the depth, as a text.
    """

    name: str
    short: str
    lane: str
    start: float
    length: float
    kind: str = ""


@frozen(kw_only=True)
class Frame:
    """The texts of a picture of pieces. `borders` are names with places in seconds."""

    title: str
    message: str
    axis: str
    borders: Mapping[str, float] = field(factory=dict)
    wide: float = WIDE


def timeline(pieces: Sequence[Piece], frame: Frame) -> Picture:
    """A lane for each stream or thread, time from left to right. In a narrow picture names are above their lanes."""
    shapes, top = _head(pieces, frame)
    lanes = list(dict.fromkeys(piece.lane for piece in pieces))
    if not lanes:
        return _nothing(shapes, top, frame, "timeline")
    stacked = frame.wide < STACKED
    kept = lanes[:MOST_LANES]
    left = EDGE if stacked else min(NAMES, max(text_width(words(lane)) for lane in kept)) + EDGE + 8
    x = _scale(pieces, left, frame.wide)
    lane_high = ROW + (17 if stacked else 4)
    bottom = top + len(kept) * lane_high + 4
    shapes += _axis(x, top, bottom, frame)
    places: dict[str, float] = {}
    for index, lane in enumerate(kept):
        y = top + index * lane_high
        room = frame.wide - 2 * EDGE if stacked else left - EDGE - 8
        shapes.append(Text(EDGE, y + (12 if stacked else 16), shortened(lane, room), "label", title=words(lane)))
        places[lane] = y + (17 if stacked else 4)
    for piece in pieces:
        if piece.lane in places:
            shapes += _box(piece, x, places[piece.lane], 0.0)
    for name, at in frame.borders.items():
        room = x.right - x(at) - 3
        shapes += [
            line(x(at), top, x(at), bottom, "divider", name),
            Text(x(at) + 3, top + 9, shortened(name, room), "note"),
        ]
    if len(lanes) > MOST_LANES:
        shapes.append(Text(EDGE, bottom + 29, f"{len(lanes) - MOST_LANES} more lanes are not drawn", "note"))
    return Picture(frame.wide, bottom + BELOW, frame.title, frame.message, shapes, "timeline")


def flame(pieces: Sequence[Piece], frame: Frame) -> Picture:
    """The outermost operator at the top, what it contains below it; the width is the time."""
    shapes, top = _head(pieces, frame)
    if not pieces:
        return _nothing(shapes, top, frame, "flame")
    x = _scale(pieces, EDGE, frame.wide)
    depths = [int(piece.lane) for piece in pieces]
    bottom = top + min(max(depths) + 1, MOST_DEPTH) * ROW + 4
    shapes += _axis(x, top, bottom, frame)
    whole = sum(piece.length for piece in pieces if piece.lane == "0")
    for piece, depth in zip(pieces, depths, strict=True):
        if depth < MOST_DEPTH:
            shapes += _box(piece, x, top + depth * ROW + 2, whole)
    left_out = sum(depth >= MOST_DEPTH for depth in depths)
    if left_out:
        shapes.append(Text(EDGE, bottom + 29, f"{left_out} pieces below row {MOST_DEPTH} are not drawn", "note"))
    return Picture(frame.wide, bottom + BELOW, frame.title, frame.message, shapes, "flame")


def _colour(kind: str) -> str:
    """The class of a kind; unknown kinds have one colour."""
    return _COLOURS.get(kind, "s9")


def _head(pieces: Iterable[Piece], frame: Frame) -> tuple[list[Shape], float]:
    there = {piece.kind for piece in pieces}
    entries = [("square", f"mark {_colour(kind)}", kind) for kind in _COLOURS if kind in there]
    return heading(frame.title, entries, frame.wide)


def _nothing(shapes: Sequence[Shape], top: float, frame: Frame, kind: str) -> Picture:
    told = Text(EDGE, top + 14, NOTHING, "note")
    return Picture(frame.wide, top + 30, frame.title, frame.message, [*shapes, told], kind)


def _scale(pieces: Iterable[Piece], left: float, wide: float) -> Scale:
    """From 0 or the first piece to the end of the last."""
    pieces = list(pieces)
    low = min([0.0, *(piece.start for piece in pieces)])
    high = max([piece.start + piece.length for piece in pieces], default=1.0)
    return Scale(low, high if high > low else low + 1.0, left, wide - EDGE)


def _axis(x: Scale, top: float, bottom: float, frame: Frame) -> list[Shape]:
    ticks = [
        (value, units.seconds(value, 3) if value > 0 else "0") for value in x.ticks(4 if frame.wide < STACKED else 8)
    ]
    title = shortened(frame.axis, frame.wide - 2 * EDGE)
    return [*svg.axis_below(x, top, bottom, ticks, ""), Text(frame.wide - EDGE, bottom + 29, title, "note", "end")]


def _box(piece: Piece, x: Scale, top: float, whole: float) -> list[Shape]:
    """A piece as a box, with its name where it fits. `whole`: seconds that shares in the tip are of."""
    left, right = x(piece.start), max(x(piece.start + piece.length), x(piece.start) + 0.4)
    right = min(right, x.right)
    bottom = top + ROW - 2
    share = f", {100 * piece.length / whole:.3g} %" if whole else ""
    tip = f"{piece.name}: {units.seconds(piece.length) if piece.length > 0 else '0'}{share}"
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    shapes: list[Shape] = [Path(corners, f"ridge {_colour(piece.kind)}", closed=True, title=tip)]
    room = right - left - 6
    if room >= 24:
        label = shortened(piece.short, room)
        if len(label) > 3 or label == piece.short:
            shapes.append(Text(left + 3, top + 12, label, "note", title=tip))
    return shapes
