"""A forest plot: a line for each row with its interval, its verdict by form and by word, and the floor as a band.

A picture of at least `STACKED` pixels has names at the left and figures at the right; a narrower picture has them above
each interval, so that they stay readable on a telephone.
"""

import math
from collections.abc import Callable, Sequence

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.render import marks
from aiperf_core.render.layout import EDGE, NARROW, STACKED, WIDE, Ticks, heading
from aiperf_core.render.svg import (
    Path,
    Picture,
    Scale,
    Shape,
    Text,
    axis_below,
    line,
    log_scale,
    mark,
    shortened,
    text_width,
)

LANE, TALL = 20.0, 36.0  # height of a line, beside and below its name
AXIS = 40.0
MOST = 60  # lines; of more, those farthest from the reference are drawn
LONGEST = 240.0  # width of a name
TIP = 300  # letters


@frozen(kw_only=True)
class Line:
    """A line of the picture.

    value, low, high: the figure and its interval; None where there is none. A NaN is none.
    told: the figure and the interval as texts.
    verdict: its word; it decides the form of the mark. Other words are shown, and have the form of `MEASURED`.
    reason: why there is no figure.
    group: a heading above the lines of one group.
    look: form and classes of the mark without a verdict.
    strong: whether the name stands out.
    href: where the mark leads.
    """

    name: str = field(converter=words)
    value: float | None = None
    low: float | None = None
    high: float | None = None
    told: tuple[str, str] = ("", "")
    verdict: str = field(default="", converter=words)
    reason: str = field(default="", converter=words)
    group: str = field(default="", converter=words)
    look: tuple[str, str] = ("circle", "mark s0")
    strong: bool = False
    href: str = ""

    @property
    def is_drawn(self) -> bool:
        """Whether there is a figure."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, where there is one."""
        if self.low is None or self.high is None or not (math.isfinite(self.low) and math.isfinite(self.high)):
            return None
        return self.low, self.high


@frozen(kw_only=True)
class Frame:
    """What a forest is drawn in.

    axis: what the horizontal axis shows, with the direction that is better.
    scale: from the two ends of the axis, in pixels, to its scale.
    reference: the value of no difference, drawn as a line; None for none.
    floor: the smallest relative difference from the reference that matters; drawn as a band.
    wide: the width of the picture.
    titled: whether the picture has its title within.
    stems: whether a line leads from the reference to each mark.
    """

    title: str
    message: str
    axis: str
    scale: Callable[[float, float], Scale]
    ticks: Ticks
    reference: float | None = None
    floor: float = 0.0
    wide: float = WIDE
    titled: bool = True
    stems: bool = False
    kind: str = "forest"


def speedups(
    rows: Sequence[tuple[str, Estimate, str, str]], *, title: str, floor: float, wide: float = NARROW
) -> Picture:
    """The forest of speedups: from name, speedup, verdict and address of each."""
    found = [
        Line(
            name=name,
            value=one.value,
            low=one.low,
            high=one.high,
            told=_as_texts(one),
            reason="" if _is_finite(one) else "beyond the range of numbers",
            verdict=verdict,
            href=href,
        )
        for name, one, verdict, href in rows
    ]
    values = [end for one in found for end in (one.value, *(one.ends or ())) if end and end > 0 and math.isfinite(end)]
    low, high = min([*values, 1.0]), max([*values, 1.0])
    margin = max((high / low) ** 0.06, 1.02 + floor)
    frame = Frame(
        title=title,
        message=message(found, 1.0),
        axis="speedup, larger is better, logarithmic",
        scale=lambda left, right: log_scale(low / margin, high * margin, left, right),
        ticks=lambda scale, most: [(tick, f"{tick:g}x") for tick in ratio_ticks(scale, most)],
        reference=1.0,
        floor=floor,
        wide=wide,
        titled=False,
        kind="figure forest",
    )
    return draw(found, frame)


def _is_finite(one: Estimate) -> bool:
    return all(map(math.isfinite, (one.value, one.low, one.high)))


def _as_texts(one: Estimate) -> tuple[str, str]:
    if not _is_finite(one):
        return "", ""
    shown = units.ratio_estimate(one)
    return shown.value, shown.interval


def ratio_ticks(scale: Scale, most: int) -> list[float]:
    """Round values of a logarithmic scale; equal steps where it is too short for powers."""
    if scale.log and scale.high < 4 * scale.low:
        return Scale(scale.low, scale.high, scale.left, scale.right).ticks(most)
    return scale.ticks(most)


def message(lines: Sequence[Line], reference: float) -> str:
    """How many lines have each verdict, and which lies farthest from the reference."""
    drawn = [one for one in lines if one.is_drawn]
    if not drawn:
        return "no figures to draw"
    counts: dict[str, int] = {}
    for one in drawn:
        counts[one.verdict or "without a verdict"] = counts.get(one.verdict or "without a verdict", 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    far = max(drawn, key=lambda one: _distance(one, reference))
    return f"{told}; farthest from {reference:g}x: {shortened(far.name, 400)}, {' '.join(far.told)}".rstrip(" ,")


def _distance(one: Line, reference: float) -> float:
    value = one.value or 0.0
    if value > 0 and reference > 0:
        return abs(math.log(value) - math.log(reference))
    return abs(value - reference)


def draw(lines: Sequence[Line], frame: Frame) -> Picture:
    """The picture. More than `MOST` lines are thinned to those farthest from the reference, which a note says."""
    kept = _kept(lines, frame.reference)
    stacked = frame.wide < STACKED
    shapes, top = heading(frame.title, (), frame.wide) if frame.titled else ([], 8.0)
    names, figures = _columns(kept, frame.wide)
    left, right = (EDGE + 4, frame.wide - EDGE - 4) if stacked else (names, frame.wide - EDGE - figures - 10)
    x = frame.scale(left, right)
    lane = TALL if stacked else LANE
    rows, bottom = _places(kept, top, lane)
    shapes += _background(frame, x, top, bottom)
    shapes += axis_below(x, top, bottom, frame.ticks(x, 4 if stacked else 6), "")
    shapes.append(Text(x.right, bottom + 27, shortened(frame.axis, frame.wide - 2 * EDGE), "note", "end"))
    if frame.reference is not None and x.low <= frame.reference <= x.high:
        shapes.append(line(x(frame.reference), top, x(frame.reference), bottom, "one", "no difference"))
    for what, y in rows:
        if isinstance(what, str):
            shapes.append(Text(EDGE, y + 14, shortened(what, (frame.wide - 2 * EDGE) / 1.15), "strong"))
        elif stacked:
            shapes += _below_its_name(what, x, y, frame)
        else:
            shapes += _beside_its_name(what, x, y, names, frame)
    if not kept:
        shapes.append(Text((left + right) / 2, top + 16, "no figures to draw", "label", "middle"))
    if len(kept) < len(lines):
        more = f"{len(lines) - len(kept):,} more lines are not drawn"
        shapes.append(Text(EDGE, bottom + AXIS, more, "note"))
        bottom += 14
    return Picture(frame.wide, bottom + AXIS, frame.title, frame.message, shapes, frame.kind)


def _kept(lines: Sequence[Line], reference: float | None) -> list[Line]:
    if len(lines) <= MOST:
        return list(lines)
    drawn = sorted((one.value or 0.0) for one in lines if one.is_drawn)
    middle = reference if reference is not None else drawn[len(drawn) // 2] if drawn else 0.0
    ranked = sorted(range(len(lines)), key=lambda at: (not lines[at].is_drawn, -_distance(lines[at], middle)))
    return [lines[at] for at in sorted(ranked[:MOST])]


def _columns(lines: Sequence[Line], wide: float) -> tuple[float, float]:
    """Where names end, and how wide the texts of figures are."""
    names = min(LONGEST, max([text_width(one.name[:80]) for one in lines], default=0.0)) + EDGE + 10
    figures = max([text_width(_told(one)) for one in lines], default=0.0)
    return names, min(figures, wide * 0.36)


def _told(one: Line) -> str:
    return " ".join(part for part in (*one.told, one.verdict) if part)


def _places(lines: Sequence[Line], top: float, lane: float) -> tuple[list[tuple[Line | str, float]], float]:
    """The lines and the headings of their groups with the top of each; and the bottom of all."""
    has_groups = len({one.group for one in lines}) > 1
    rows: list[tuple[Line | str, float]] = []
    y, group = top, ""
    for one in lines:
        if has_groups and one.group != group:
            y += 8.0 if rows else 0.0
            rows.append((one.group, y))
            y, group = y + 20.0, one.group
        rows.append((one, y))
        y += lane
    return rows, max(y, top + LANE) + 6


def _background(frame: Frame, x: Scale, top: float, bottom: float) -> list[Shape]:
    """The band of differences that do not matter."""
    if frame.reference is None or not frame.floor:
        return []
    ends = [x(frame.reference * (1 - frame.floor)), x(frame.reference * (1 + frame.floor))]
    corners = [(ends[0], top), (ends[1], top), (ends[1], bottom), (ends[0], bottom)]
    told = f"differences up to {units.percent(frame.floor)} do not matter"
    return [Path(corners, "floor", closed=True, title=told)]


def _beside_its_name(one: Line, x: Scale, top: float, names: float, frame: Frame) -> list[Shape]:
    y, wide = top + LANE / 2 + 3, frame.wide
    kind = "label strong" if one.strong else "label"
    shapes: list[Shape] = [Text(EDGE, y + 4, shortened(one.name, names - EDGE - 8, keeps_end=True), kind)]
    if not one.is_drawn:
        return [*shapes, Text(names, y + 4, shortened(one.reason or "not measured", wide - names - EDGE), "note")]
    told = Text(wide - EDGE, y + 4, shortened(_told(one), wide * 0.36), "label", "end")
    return [*shapes, *_interval(one, x, y, frame), told]


def _below_its_name(one: Line, x: Scale, top: float, frame: Frame) -> list[Shape]:
    """The name, the figure and the verdict above the interval. The figure may take the room that the name leaves."""
    wide = frame.wide
    told = _told(one) if one.is_drawn else one.reason or "not measured"
    told = shortened(told, max(0.62 * wide, wide - 3 * EDGE - text_width(one.name)))
    name = shortened(one.name, wide - 3 * EDGE - text_width(told), keeps_end=True)
    shapes: list[Shape] = [
        Text(EDGE, top + 14, name, "strong" if one.strong else "name"),
        Text(wide - EDGE, top + 14, told, "label" if one.is_drawn else "note", "end"),
    ]
    return [*shapes, *(_interval(one, x, top + 25, frame) if one.is_drawn else [])]


def _interval(one: Line, x: Scale, y: float, frame: Frame) -> list[Shape]:
    assert one.value is not None
    form, kind = marks.VERDICTS.get(one.verdict, one.look)
    shapes: list[Shape] = []
    if frame.stems and frame.reference is not None:
        shapes.append(line(x(frame.reference), y, x(one.value), y, "stem"))
    if one.ends:
        shapes.append(line(x(one.ends[0]), y, x(one.ends[1]), y, f"whisker {kind.split()[-1]}"))
    tip = f"{one.name[:TIP]}: {_told(one)}"
    return [*shapes, mark(x(one.value), y, 4.0, form, kind, tip, one.href)]
