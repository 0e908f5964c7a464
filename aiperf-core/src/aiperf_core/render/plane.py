"""Points in a plane: histories with levels and borders, scaling curves with fits, and Pareto fronts.

A point has the whiskers of its intervals, a form, and a link to its row. Of a long course the extremes of equal pieces
are drawn, so that a step or an outlier is never lost.
"""

import math
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from aiperf_core.names import words
from aiperf_core.render import svg
from aiperf_core.render.layout import BELOW, EDGE, NARROW, STACKED, WIDE, Axis, heading
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, line, shortened, text_width
from aiperf_core.render.thinning import kept

__all__ = ["NARROW", "WIDE", "Area", "Band", "Course", "Plane", "Spot", "draw"]

HIGH, LOW = 320.0, 240.0  # of the plane, in a wide and in a narrow picture
LEFT = 56.0
# Points of a course in a wide and in a narrow picture; those of a figure over time, which has a page with all points.
MOST, FEWER = 600, 200
OVER_TIME = (300, 120)
NAMED, NAME_HIGH = 8, 13.0  # borders with a name above the plane, and its height; the tip of each has it too

Ends = tuple[float, float]


@frozen(kw_only=True)
class Spot:
    """A point: its place, the ends of its intervals, its name beside it, its tip, its form and classes, its link."""

    x: float
    y: float
    x_ends: Ends | None = None
    y_ends: Ends | None = None
    label: str = field(default="", converter=words)
    tip: str = ""
    form: str = "circle"
    kind: str = "mark"
    href: str = ""

    @property
    def is_drawn(self) -> bool:
        """Whether it has a place."""
        return math.isfinite(self.x) and math.isfinite(self.y)


@frozen(kw_only=True)
class Course:
    """Points of one name and colour.

    look: form and classes in the legend, without the colour.
    line: the class of the line through the points in their order; empty for none.
    marked: whether the points have marks, or the line alone is drawn.
    steps: whether the line goes from point to point across and up, as the border of what a front dominates.
    aside: pixels by which the course is moved to the right, so that intervals at one place do not cover each other.
    """

    name: str
    colour: str
    spots: Sequence[Spot]
    look: tuple[str, str] = ("circle", "mark")
    line: str = ""
    marked: bool = True
    steps: bool = False
    aside: float = 0.0


@frozen
class Area:
    """A range of the horizontal axis that leads to a picture of its own."""

    begin: float
    end: float
    title: str
    href: str


@frozen
class Band:
    """A range of the horizontal axis in which something lies, such as the place of a step."""

    begin: float
    end: float
    title: str


@frozen(kw_only=True)
class Plane:
    """A picture of courses.

    borders: names with places on the horizontal axis, such as a change of driver.
    bands: ranges that are drawn behind all else.
    areas: ranges that lead to pictures of their own.
    most: the points of a course that are drawn, in a wide and in a narrow picture.
    """

    title: str
    message: str
    x: Axis
    y: Axis
    courses: Sequence[Course]
    borders: Mapping[str, float] = field(factory=dict)
    bands: Sequence[Band] = ()
    areas: Sequence[Area] = ()
    wide: float = WIDE
    kind: str = "plane"
    most: tuple[int, int] = (MOST, FEWER)


@frozen(kw_only=True)
class Pane:
    """A plane within a picture: the courses over two axes.

    left: where the horizontal axis begins; the labels of the upright axis are at its left, from `edge` on.
    right, top, bottom: the other ends of the plane.
    horizon: a height with a line of its own class and title, such as a limit; None for none.
    most: the points of a course that are drawn.
    most_ticks: the ticks of the horizontal and of the upright axis.
    """

    x: Axis
    y: Axis
    courses: Sequence[Course]
    edge: float
    left: float
    right: float
    top: float
    bottom: float
    borders: Mapping[str, float] = field(factory=dict)
    bands: Sequence[Band] = ()
    areas: Sequence[Area] = ()
    horizon: tuple[float, str, str] | None = None
    most: int = MOST
    most_ticks: tuple[int, int] = (7, 6)


def draw(plane: Plane) -> Picture:
    """The picture."""
    legend = [(form, f"{looks} {one.colour}", one.name) for one in plane.courses for form, looks in [one.look]]
    shapes, top = heading(plane.title, legend, plane.wide)
    narrow = plane.wide < STACKED
    top += 14 + NAME_HIGH * _rows(plane.borders)
    bottom = top - 14 + (LOW if narrow else HIGH)
    most_ticks = (4, 5) if narrow else (7, 6)
    labels = plane.y.ticks(plane.y.scale(bottom, top), most_ticks[1])
    shapes += pane(
        Pane(
            x=plane.x,
            y=plane.y,
            courses=plane.courses,
            edge=EDGE,
            left=max([LEFT - 20 if narrow else LEFT, *(text_width(label) + EDGE + 8 for _, label in labels)]),
            right=plane.wide - EDGE,
            top=top,
            bottom=bottom,
            borders=plane.borders,
            bands=plane.bands,
            areas=plane.areas,
            most=plane.most[narrow],
            most_ticks=most_ticks,
        )
    )
    return Picture(plane.wide, bottom + BELOW, plane.title, plane.message, shapes, plane.kind)


def pane(one: Pane) -> list[Shape]:
    """The shapes of a plane, with its axes and their titles."""
    top, bottom, left, right = one.top, one.bottom, one.left, one.right
    x, y = one.x.scale(left, right - 8), one.y.scale(bottom, top)
    shapes = [_surface(band.begin, band.end, x, top, bottom, "floor", band.title) for band in one.bands]
    shapes += svg.axis_below(x, top, bottom, one.x.ticks(x, one.most_ticks[0]), "")
    shapes.append(Text(right, bottom + 29, shortened(one.x.title, right - one.edge), "note", "end"))
    ticks = [(value, shortened(label, left - one.edge)) for value, label in one.y.ticks(y, one.most_ticks[1])]
    shapes += svg.axis_left(y, left, right, ticks, "")
    above = top - NAME_HIGH * _rows(one.borders)
    shapes.append(Text(one.edge, above - 10, shortened(one.y.title, right - one.edge), "note"))
    if one.horizon and y.low <= one.horizon[0] <= y.high:
        height, kind, title = one.horizon
        shapes.append(line(left, y(height), right, y(height), kind, title))
    if not any(spot.is_drawn for course in one.courses for spot in course.spots):
        shapes.append(Text((left + right) / 2, (top + bottom) / 2, "no figures to draw", "label", "middle"))
    shapes += _areas(one.areas, x, top, bottom)
    shapes += _borders(one.borders, x, top, bottom)
    drawn = [(course, _thinned(course, one.most)) for course in one.courses]
    # All lines lie below all marks: a mark may be a link, which a line must not cover.
    for course, some in drawn:
        shapes += _line(course, some, x, y)
    for course, some in drawn:
        shapes += _marks(course, some, x, y)
    return shapes + _labels([spot for _, some in drawn for spot in some], x, y, left, right)


def _areas(areas: Sequence[Area], x: Scale, top: float, bottom: float) -> list[Shape]:
    """A surface over each range, behind the points."""
    return [_surface(one.begin, one.end, x, top, bottom, "area", one.title, one.href) for one in areas]


def _surface(
    begin: float, end: float, x: Scale, top: float, bottom: float, kind: str, title: str, href: str = ""
) -> Shape:
    corners = [(x(begin), top), (x(end), top), (x(end), bottom), (x(begin), bottom)]
    return Path(corners, kind, closed=True, title=title, href=href)


def _rows(borders: Mapping[str, float]) -> int:
    """The rows of names above the plane."""
    count = len(set(borders.values()))
    return min(count, 3) if count <= NAMED else 0


def _borders(borders: Mapping[str, float], x: Scale, top: float, bottom: float) -> list[Shape]:
    """An upright line at each border; those at one place share it. The first few have their name in steps."""
    places: dict[float, list[str]] = {}
    for name, at in borders.items():
        places.setdefault(at, []).append(name)
    shapes: list[Shape] = []
    for index, (at, names) in enumerate(sorted(places.items())):
        name = "; ".join(names)
        rows = _rows(borders)
        up = top - NAME_HIGH * (rows - index % rows) if rows else top
        shapes.append(line(x(at), up, x(at), bottom, "divider", name))
        if not rows:
            continue
        turned = x(at) > (x.left + x.right) / 2
        room = (x(at) - x.left if turned else x.right - x(at)) - 6
        place = x(at) - 3 if turned else x(at) + 3
        text = shortened(name, room)
        shapes.append(Text(place, up + 10, text, "note", "end" if turned else "start"))
    return shapes


def _thinned(one: Course, most: int) -> list[Spot]:
    """The points that have a place; of very many, the extremes of equal pieces."""
    found = [spot for spot in one.spots if spot.is_drawn]
    return [found[at] for at in kept([spot.y for spot in found], most)]


def _line(one: Course, spots: Sequence[Spot], x: Scale, y: Scale) -> list[Shape]:
    if not one.line or not spots:
        return []
    places = [(x(spot.x) + one.aside, y(spot.y)) for spot in spots]
    return [Path(_stepped(places) if one.steps else places, f"{one.line} {one.colour}")]


def _marks(one: Course, spots: Sequence[Spot], x: Scale, y: Scale) -> list[Shape]:
    shapes: list[Shape] = []
    for spot in spots if one.marked else ():
        at, up = x(spot.x) + one.aside, y(spot.y)
        if spot.y_ends is not None:
            shapes.append(line(at, y(spot.y_ends[0]), at, y(spot.y_ends[1]), f"whisker {one.colour}"))
        if spot.x_ends is not None:
            shapes.append(line(x(spot.x_ends[0]), up, x(spot.x_ends[1]), up, f"whisker {one.colour}"))
        shapes.append(svg.mark(at, up, 3.5, spot.form, spot.kind, spot.tip, spot.href))
    return shapes


def _stepped(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places from left to right, each reached across and then down."""
    found: list[tuple[float, float]] = []
    for at, up in sorted(places):
        if found:
            found.append((at, found[-1][1]))
        found.append((at, up))
    return found


def _labels(spots: Sequence[Spot], x: Scale, y: Scale, left: float, right: float) -> list[Shape]:
    """Names beside points, where they cover neither a mark nor each other."""
    places = [(spot, *_reach(spot, x), y(spot.y)) for spot in spots]
    taken = [(begin, end, up) for _, begin, end, up in places]
    shapes: list[Shape] = []
    for spot, begin, end, up in places:
        if not spot.label:
            continue
        width = text_width(spot.label)
        for at, height in ((end + 4, up), (begin - 4 - width, up), (end - 4, up - 12), (end - 4, up + 12)):
            inside = at > left and at + width < right
            free = all(abs(height - other) > 11 or at > stop or at + width < start for start, stop, other in taken)
            if inside and free:
                taken.append((at, at + width, height))
                shapes.append(Text(at, height + 4, spot.label, "note"))
                break
    return shapes


def _reach(spot: Spot, x: Scale) -> tuple[float, float]:
    """The places of a mark's ends with its whiskers."""
    at = x(spot.x)
    if spot.x_ends is None:
        return at - 4, at + 4
    return min(at - 4, x(spot.x_ends[0])), max(at + 4, x(spot.x_ends[1]))
