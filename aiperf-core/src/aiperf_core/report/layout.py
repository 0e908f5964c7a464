"""Parts that all kinds of pictures share: widths, the title with the legend, axes, and how a point looks."""

import math
from collections.abc import Callable, Iterable, Sequence

from attrs import evolve
from markupsafe import Markup

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.report import cell_text, svg
from aiperf_core.report.marks import FIT, MARKS, ROLES
from aiperf_core.report.result import Axis, Drawing, Figure, Origin, Point, Series
from aiperf_core.report.svg import Picture, Scale, Shape, Text, log_scale, shortened, text_width

# Pixels. A page shows the narrow picture where there is no room for the wide one, so that letters keep their size.
WIDE, NARROW = 720.0, 340.0
STACKED = 560.0  # a narrower picture has names above its lines, not beside them
EDGE = 12.0
BELOW = 40.0  # an axis with its title
BOLD = 1.15  # how much wider the letters of a title are than others
NAMED, NAME_HIGH = 8, 13.0  # borders with a name above the plane, and its height; the tip of each has it too
FARTHEST = 1e150  # from zero; values beyond stand at the end of their axis
WIDEST = 3.0
NOTHING = "no figures to draw"
_TITLE = 15.0  # font size
_FORMS = ("circle", "square", "triangle", "diamond")

# Shows the layout of `both` that fits where the picture stands. Paper and programs without containers get the wide one.
STYLE = f"""
.picture {{ container-type: inline-size; }}
.picture > svg.narrow {{ display: none; max-width: 30rem; }}
@media screen {{ @container (max-width: {WIDE - 1:g}px) {{
.picture > svg {{ display: none; }} .picture > svg.narrow {{ display: block; }} }} }}
"""

# From a point's origin to the address where its row is shown; empty where it leads nowhere.
Link = Callable[[Origin], str]


def both(draw: Callable[[float], Picture]) -> Markup:
    """A picture in both widths as an element of a page that has `STYLE`. `draw` gives the picture of a width."""
    wide, narrow = draw(WIDE), draw(NARROW)
    return Markup('<div class="picture">{}{}</div>').format(
        svg.markup(wide), svg.markup(evolve(narrow, kind=f"{narrow.kind} narrow"))
    )


# --- title and legend


def heading(title: str, entries: Sequence[tuple[str, str, str]], wide: float) -> tuple[list[Shape], float]:
    """The title in at most two lines, the legend below it where it has several entries, and where the plane begins."""
    shapes: list[Shape] = []
    y = 24.0 if title else 8.0
    for text in wrapped(title, (wide - 2 * EDGE) / BOLD, _TITLE) if title else ():
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


# --- points


def colours(series: Sequence[Series]) -> list[str]:
    """The class of the colour of each series: that of its points where they have one, else by its place."""
    shared = [{point.colour for point in each.points} for each in series]
    return [
        (colour.pop() if len(colour) == 1 else "") or svg.SERIES[index % len(svg.SERIES)]
        for index, colour in enumerate(shared)
    ]


def form(index: int) -> str:
    """The form of the marks of a series by its place."""
    return _FORMS[index % len(_FORMS)]


def look(point: Point, form: str, colour: str) -> tuple[str, str]:
    """The form and the classes of a point: by its mark, else those of its series."""
    marked = MARKS.get(point.mark)
    if marked is None:
        return form, f"mark {point.colour or colour}"
    return marked if point.mark not in ROLES else (marked[0], f"{marked[1]} {point.colour or colour}")


def tip(point: Point, drawing: Drawing) -> str:
    """The tip of a point: its name, its figures by the titles of the axes, and its mark."""
    figures = [
        f"{axis.title}: {cell_text.whole(figure)}"
        for axis, figure in ((drawing.x, point.x), (drawing.y, point.y))
        if axis.title
    ]
    return ", ".join(part for part in (point.label, *figures, "" if point.mark == FIT else point.mark) if part)


def href(point: Point, link: Link | None) -> str:
    """The address that a point leads to; empty for none."""
    return link(point.origin) if link and point.origin else ""


def has_value(figure: Figure) -> bool:
    """True for a figure that has a place on an axis."""
    return figure.value is not None and math.isfinite(figure.value)


def ends(figure: Figure) -> tuple[float, float] | None:
    """The interval of a figure, where it has a length."""
    if figure.low is None or figure.high is None or not figure.high > figure.low:
        return None
    return figure.low, figure.high


def values(figures: Iterable[Figure]) -> list[float]:
    """The values of figures and the ends of their intervals, as far as they are numbers."""
    return [
        min(max(value, -FARTHEST), FARTHEST)
        for figure in figures
        for value in (figure.value, figure.low, figure.high)
        if value is not None and math.isfinite(value)
    ]


def near_values(figures: Iterable[Figure], *, log: bool) -> list[float]:
    """The values of figures, and the ends of their intervals as far as these lie near the values.

    An interval widens an axis by at most `WIDEST` times on a logarithmic one, and by the range of the values, or half
    of the largest, on a linear one: a very wide interval must not flatten the points.
    """
    figures = list(figures)
    centres = values(Figure(value=figure.value) for figure in figures)
    centres = [value for value in centres if value > 0] if log else centres
    if not centres:
        return values(figures)
    low, high = min(centres), max(centres)
    room = max(high - low, abs(high) / 2)
    least, most = (low / WIDEST, high * WIDEST) if log else (low - room, high + room)
    return [min(max(value, least), most) for value in values(figures)]


# --- axes


def title_of(axis: Axis) -> str:
    """The title of an axis; that of a logarithmic one says so."""
    return f"{axis.title}, logarithmic" if axis.log and axis.title and "logarithmic" not in axis.title else axis.title


def scale(axis: Axis, figures: Sequence[float], left: float, right: float) -> Scale:
    """The scale of an axis: between its ends where it has them, else around the figures with a margin."""
    low, high = axis.ends or (min(figures, default=0.0), max(figures, default=1.0))
    if axis.log:
        positive = [value for value in figures if value > 0] or [1.0]
        low, high = axis.ends or (min(positive), max(positive))
        margin = 1.0 if axis.ends else max((high / low) ** 0.06, 1.02)
        return log_scale(low / margin, high * margin, left, right)
    if axis.ends:
        return Scale(low, high if high > low else low + 1.0, left, right)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return Scale(low if low == 0 else low - margin, high + margin, left, right)


def ticks(axis: Axis, scale: Scale, most: int) -> list[tuple[float, str]]:
    """Places of an axis with their labels: its named places as far as there is room, or round values in its unit."""
    if axis.places:
        return _named(axis, scale)
    if axis.unit == "B" and scale.high > 0:
        return _sizes(axis, scale, most)
    places = scale.ticks(most)
    if axis.unit == "count":
        places = [value for value in places if value == round(value)] or places
    elif axis.unit == "1" and scale.log and scale.high < 4 * scale.low:
        places = Scale(scale.low, scale.high, scale.left, scale.right).ticks(most)
    labels: list[str] = []
    for digits in range(2, 6):
        labels = [_label(value, axis, digits) for value in places]
        if len({*labels}) == len(labels):
            break
    return list(zip(places, labels, strict=True))


def _named(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    labelled: list[tuple[float, str]] = []
    free = scale.left - 100.0
    for name, value in sorted(axis.places.items(), key=lambda item: item[1]):
        half = text_width(name) / 2
        # A label at an end of the axis reaches inwards.
        middle = min(max(scale(value), scale.left - 8 + half), scale.right + 8 - half)
        if middle - half >= free:
            labelled.append((value, name))
            free = middle + half + 10
    return labelled


def _sizes(axis: Axis, scale: Scale, most: int) -> list[tuple[float, str]]:
    """Round numbers of KiB or MiB, not of bytes."""
    if scale.log:
        first, last = math.ceil(math.log2(scale.low) - 1e-9), math.floor(math.log2(scale.high) + 1e-9)
        every = max(1, -(-(last - first + 1) // most))
        return [(2.0**power, _label(2.0**power, axis)) for power in range(first, last + 1, every)]
    power = max(0, math.floor(math.log(scale.high, 1024)))
    places = Scale(scale.low / 1024.0**power, scale.high / 1024.0**power, 0.0, 1.0).ticks(most)
    return [(value * 1024.0**power, f"{value:,.6g} {units.SIZE_UNITS[power]}" if value else "0 B") for value in places]


def _label(value: float, axis: Axis, digits: int = 2) -> str:
    """A tick's label; of a time with at least this number of digits, so that neighbours differ."""
    if axis.unit == "s":
        return units.seconds(value, digits) if value > 0 else "0"
    text = cell_text.number(value, axis.unit, suffix=axis.unit in ("1", "%"))
    if "." in text:
        head, _, tail = text.rstrip("x").partition(" ")
        text = f"{head.rstrip('0').rstrip('.')}{'x' if text.endswith('x') else ''} {tail}".rstrip()
    return text


# --- places with a name


def border_rows(drawing: Drawing) -> int:
    """The rows that the names of borders take above the plane."""
    count = len(set(drawing.borders.values()))
    return min(count, 3) if count <= NAMED and drawing.kind != "strip" else 0


def borders(drawing: Drawing, x: Scale, top: float, bottom: float) -> list[Shape]:
    """An upright line at each border; those at one place share it. The first few have their name in steps."""
    places: dict[float, list[str]] = {}
    for name, place in drawing.borders.items():
        places.setdefault(place, []).append(name)
    rows = border_rows(drawing)
    shapes: list[Shape] = []
    for index, (place, names) in enumerate(sorted(places.items())):
        at, name = x(place), "; ".join(names)
        up = top - NAME_HIGH * (rows - index % rows) if rows else top
        shapes.append(svg.line(at, up, at, bottom, "divider", name))
        if rows:
            turned = at > (x.left + x.right) / 2
            text = shortened(name, (at - x.left if turned else x.right - at) - 6)
            shapes.append(Text(at - 3 if turned else at + 3, up + 10, text, "note", "end" if turned else "start"))
    return shapes


def bands(drawing: Drawing, x: Scale, top: float, bottom: float) -> list[Shape]:
    """The ranges of the horizontal axis, as surfaces."""
    shapes: list[Shape] = []
    for band in drawing.bands:
        left, right = x(band.begin), x(band.end)
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        shapes.append(svg.Path(corners, band.kind, closed=True, title=band.title, href=band.href))
    return shapes
