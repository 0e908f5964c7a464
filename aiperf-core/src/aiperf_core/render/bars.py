"""Bars: from zero to a value, or the steps of a ladder, each from where the step before it ended."""

import math
from collections.abc import Sequence

from attrs import field, frozen

from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.layout import BELOW, EDGE, STACKED, WIDE, Axis, heading
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, shortened, text_width

LINE, TALL = 22.0, 38.0  # height of a bar with its space, beside and below its name
LONGEST = 240.0  # width of a name


@frozen(kw_only=True)
class Bar:
    """A bar: its name, its ends, its interval, and the figure as a text.

    value: where it ends; None where there is no figure, for which `told` says why.
    begin: where it begins; None for the left end of the axis.
    """

    name: str = field(converter=words)
    value: float | None
    begin: float | None = None
    ends: tuple[float, float] | None = None
    told: str = field(default="", converter=words)
    tip: str = ""
    colour: str = "s0"
    href: str = ""

    @property
    def is_drawn(self) -> bool:
        """Whether it has a figure."""
        return self.value is not None and math.isfinite(self.value)


@frozen(kw_only=True)
class Bars:
    """A picture of bars. `reference` is a value with a line, such as 1 for no gain; None for none."""

    title: str
    message: str
    axis: Axis
    bars: Sequence[Bar]
    legend: Sequence[tuple[str, str, str]] = ()
    reference: float | None = None
    wide: float = WIDE
    kind: str = "bars"


def draw(found: Bars) -> Picture:
    """The picture. In a narrow one the name and the figure of a bar are above it."""
    shapes, top = heading(found.title, found.legend, found.wide)
    stacked = found.wide < STACKED
    names = min(LONGEST, max([text_width(one.name) for one in found.bars], default=0.0)) + EDGE + 10
    figures = min(max([text_width(one.told) for one in found.bars if one.is_drawn], default=0.0), 0.3 * found.wide)
    left, right = (EDGE, found.wide - EDGE) if stacked else (names, found.wide - EDGE - figures - 8)
    x = found.axis.scale(left, right)
    lane = TALL if stacked else LINE
    bottom = top + lane * max(len(found.bars), 1) + 6
    shapes += svg.axis_below(x, top, bottom, found.axis.ticks(x, 4 if stacked else 6), "")
    title = shortened(found.axis.title, found.wide - 2 * EDGE)
    shapes.append(Text(found.wide - EDGE, bottom + 29, title, "note", "end"))
    if found.reference is not None and x.low <= found.reference <= x.high:
        shapes.append(line(x(found.reference), top, x(found.reference), bottom, "one"))
    for index, one in enumerate(found.bars):
        shapes += _bar(one, x, top + lane * index, found.wide, stacked)
    if not found.bars:
        shapes.append(Text((left + right) / 2, top + 16, "no figures to draw", "label", "middle"))
    return Picture(found.wide, bottom + BELOW, found.title, found.message, shapes, found.kind)


def _bar(one: Bar, x: Scale, top: float, wide: float, stacked: bool) -> list[Shape]:
    if stacked:
        told = shortened(one.told, 0.6 * wide)
        name = shortened(one.name, wide - 3 * EDGE - text_width(told))
        shapes: list[Shape] = [
            Text(EDGE, top + 14, name, "name"),
            Text(wide - EDGE, top + 14, told, "tick", "end"),
        ]
        y = top + 26
    else:
        y = top + LINE / 2 + 3
        shapes = [Text(EDGE, y + 4, shortened(one.name, x.left - EDGE - 8), "label")]
        if one.is_drawn:
            shapes.append(Text(wide - EDGE, y + 4, shortened(one.told, wide - EDGE - x.right - 4), "tick", "end"))
        else:
            shapes.append(Text(x.left, y + 4, shortened(one.told, wide - EDGE - x.left), "note"))
    if one.value is None or not one.is_drawn:
        return shapes
    begin = x.left if one.begin is None else x(one.begin)
    left, right = sorted((begin, x(one.value)))
    corners = [(left, y - 6), (right, y - 6), (right, y + 6), (left, y + 6)]
    shapes.append(Path(corners, f"ridge {one.colour}", closed=True, title=one.tip, href=one.href))
    shapes.append(line(x(one.value), y - 6, x(one.value), y + 6, f"median {one.colour}"))
    if one.ends is not None:
        shapes.append(line(x(one.ends[0]), y, x(one.ends[1]), y, f"whisker {one.colour}"))
    return shapes
