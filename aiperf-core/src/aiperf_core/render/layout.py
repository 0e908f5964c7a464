"""What pictures of results share: their two widths, and the title with the legend above the plane."""

from collections.abc import Callable, Sequence

from attrs import evolve, frozen
from markupsafe import Markup

from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.svg import Picture, Scale, Shape, Text, shortened, text_width

# Pixels. A page shows the narrow picture where there is no room for the wide one, so that letters keep their size.
WIDE, NARROW = 720.0, 340.0
STACKED = 560.0  # a narrower picture has names above its lines, not beside them
EDGE = 12.0
BELOW = 40.0  # an axis with its title
BOLD = 1.15  # how much wider the letters of a title are than others
_TITLE = 15.0  # font size

# Shows the layout of `both` that fits where the picture stands. Paper and programs without containers get the wide one.
STYLE = f"""
.picture {{ container-type: inline-size; }}
.picture > svg.narrow {{ display: none; max-width: 30rem; }}
@media screen {{ @container (max-width: {WIDE - 1:g}px) {{
.picture > svg {{ display: none; }} .picture > svg.narrow {{ display: block; }} }} }}
"""

Ticks = Callable[[Scale, int], Sequence[tuple[float, str]]]


@frozen(kw_only=True)
class Axis:
    """An axis: its title with the unit and the better direction, its scale between two ends in pixels, and labels."""

    title: str
    scale: Callable[[float, float], Scale]
    ticks: Ticks


def heading(title: str, entries: Sequence[tuple[str, str, str]], wide: float) -> tuple[list[Shape], float]:
    """The title in at most two lines, the legend below it where it has several entries, and where the plane begins."""
    shapes: list[Shape] = []
    y = 24.0
    for text in wrapped(title, (wide - 2 * EDGE) / BOLD, _TITLE):
        shapes.append(Text(EDGE, y, text, "title"))
        y += 19.0
    if len(entries) < 2:
        return shapes, y - 3.0
    legend, bottom = svg.legend(entries, EDGE, wide - EDGE, y - 9.0)
    return [*shapes, *legend], bottom + 8.0


def wrapped(text: str, width: float, size: float = 11.0, most: int = 2) -> list[str]:
    """A text in lines of at most this width, broken at blanks; the last line is shortened where the text is longer."""
    lines: list[str] = []
    rest = words(text).split(" ")
    while rest and len(lines) < most - 1:
        count = 1
        while count < len(rest) and text_width(" ".join(rest[: count + 1]), size) <= width:
            count += 1
        lines.append(shortened(" ".join(rest[:count]), width, size))
        rest = rest[count:]
    return [*lines, shortened(" ".join(rest), width, size)] if rest else lines


def both(draw: Callable[[float], Picture]) -> Markup:
    """A picture in both widths as an element of a page that has `STYLE`. `draw` gives the picture of a width."""
    wide, narrow = draw(WIDE), draw(NARROW)
    return Markup('<div class="picture">{}{}</div>').format(
        svg.markup(wide), svg.markup(evolve(narrow, kind=f"{narrow.kind} narrow"))
    )
