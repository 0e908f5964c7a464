"""Points in a plane: histories with levels and borders, scaling curves with fits, rooflines, Pareto fronts, strips.

A point has the whiskers of its intervals, a form, and a link to its row. Of a long series the extremes of equal pieces
are drawn, so that a step or an outlier is never lost.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen

from aiperf_core.report import layout, svg
from aiperf_core.report.layout import BELOW, EDGE, NAME_HIGH, STACKED, Link
from aiperf_core.report.marks import FIT, FRONT, MARKS, ROLES
from aiperf_core.report.result import Drawing, Point, Series
from aiperf_core.report.svg import Path, Picture, Scale, Shape, Text, line, shortened, text_width
from aiperf_core.report.thinning import kept

HIGH, LOW = 320.0, 240.0  # of the plane, in a wide and in a narrow picture
CROWDED = 1.4  # times as high, where marks have short names
ARROW = 6.0  # length of the arrow head of an interval that is cut
STRIP = 42.0  # of the plane of a strip
LEFT = 56.0
# Points of a series in a wide and in a narrow picture; those of a figure over time, which has a page with all points.
MOST, OVER_TIME = (600, 200), (300, 120)
APART, SPREAD = 3.0, 18.0  # pixels between neighbours of several series at a named place, and between the outer ones
LABEL = 13.0  # height of a label
LONGEST = 260.0  # width of a label
BRIEF = 0.6  # of its width, where the whole has no place
KEY, MOST_ROWS = 220.0, 40  # width of a column of the legend of short names, and its most rows
BRIEFEST = 64.0  # shorter ones say nothing
MARK = 5.0  # half the size of a mark
# Where a label may stand: pixels below the middle of its mark, and at its right or left. The first free one is taken.
PLACES = sorted(
    ((shift, side) for shift in (0.0, -13.0, 13.0, -26.0, 26.0, -39.0, 39.0, 52.0, 65.0) for side in (1, -1)),
    key=lambda place: abs(place[0]) + 30.0 * (place[1] < 0),
)

# A rectangle that is covered: left, top, right, bottom.
Box = tuple[float, float, float, float]


@frozen(kw_only=True)
class _Plane:
    """The two scales, with the ends of the plane in pixels."""

    x: Scale
    y: Scale
    left: float
    right: float
    top: float
    bottom: float

    def at(self, point: Point, aside: float = 0.0) -> tuple[float, float]:
        """The place of a point that has one."""
        return self.x(point.x.value or 0.0) + aside, self.y(point.y.value or 0.0)


@frozen(kw_only=True)
class _Course:
    """A series with the look of its marks and the stretches of its points that are drawn.

    aside: pixels by which it is moved to the right, so that intervals at one place do not cover each other.
    """

    series: Series
    form: str
    colour: str
    stretches: Sequence[Sequence[Point]]
    aside: float

    @property
    def points(self) -> list[Point]:
        """The points that are drawn."""
        return [point for stretch in self.stretches for point in stretch]

    @property
    def is_front(self) -> bool:
        """True for a line that is the border of what its points dominate."""
        return bool(self.series.points) and all(point.mark == FRONT for point in self.series.points)


def draw(drawing: Drawing, link: Link | None, wide: float) -> Picture:
    """The picture of the kinds `lines`, `scatter` and `strip`."""
    narrow, is_strip = wide < STACKED, drawing.kind == "strip"
    courses = _courses(drawing, narrow)
    if is_strip:
        shapes: list[Shape] = [Text(EDGE, 11, shortened(drawing.title, wide - 2 * EDGE), "name")]
        top, high = 22.0, STRIP
    else:
        shapes, top = layout.heading(drawing.title, _legend(drawing, courses), wide)
        top, high = top + 14 + NAME_HIGH * layout.border_rows(drawing), LOW if narrow else HIGH
        if any(point.short for course in courses for point in course.points):
            high *= CROWDED
    bottom = top + high
    most = (3 if is_strip else 4 if narrow else 7, 3 if is_strip else 5 if narrow else 6)
    points = [point for course in courses for point in course.points]
    upright = layout.near_values((point.y for point in points), log=drawing.y.log)
    y = layout.scale(drawing.y, upright, bottom, top)
    labels = layout.ticks(drawing.y, y, most[1])
    if len(labels) < 2:
        labels = layout.ticks(drawing.y, y, 5)
    left = min(
        max([LEFT - 20 if narrow and not is_strip else LEFT, *(text_width(label) + EDGE + 8 for _, label in labels)]),
        wide / 2,
    )
    across = [
        *layout.near_values((point.x for point in points), log=drawing.x.log),
        *drawing.borders.values(),
        *(end for band in drawing.bands for end in (band.begin, band.end)),
    ]
    plane = _Plane(
        x=layout.scale(drawing.x, across, left, wide - EDGE - 8), y=y, left=left, right=wide - EDGE, top=top,
        bottom=bottom,
    )  # fmt: skip
    shapes += _frame(drawing, plane, labels, most[0])
    if not points:
        shapes.append(Text((left + plane.right) / 2, (top + bottom) / 2, layout.NOTHING, "label", "middle"))
    # All lines lie below all marks: a mark may be a link, which a line must not cover.
    lines = [path for course in courses for path in _lines(course, plane, drawing)]
    shapes += lines
    for course in courses:
        shapes += _marks(course, plane, drawing, link)
    below = BELOW if drawing.x.title else 6.0
    if is_strip:
        return Picture(wide, bottom + below, drawing.title, drawing.message, shapes, drawing.kind)
    labels_of, written = _labels(courses, lines, plane)
    key, end = _key([point for point in points if point.short], written, bottom + below, wide)
    return Picture(wide, end, drawing.title, drawing.message, [*shapes, *labels_of, *key], drawing.kind)


def _frame(drawing: Drawing, plane: _Plane, labels: Sequence[tuple[float, str]], most: int) -> list[Shape]:
    """Shapes behind the points: bands, both axes with their titles, areas and borders."""
    shapes = [shape for shape in layout.bands(drawing, plane.x, plane.top, plane.bottom) if shape.kind == "floor"]
    if drawing.x.title:
        across = layout.ticks(drawing.x, plane.x, most)
        if len(across) < 2:  # a single label gives no range
            across = layout.ticks(drawing.x, plane.x, 2 * most)
        shapes += svg.axis_below(plane.x, plane.top, plane.bottom, across)
        title = shortened(layout.title_of(drawing.x), plane.right - EDGE)
        shapes.append(Text(plane.right, plane.bottom + 29, title, "note", "end"))
    ticks = [(value, shortened(label, plane.left - EDGE)) for value, label in labels]
    shapes += svg.axis_left(plane.y, plane.left, plane.right, ticks)
    if drawing.kind != "strip":
        above = plane.top - NAME_HIGH * layout.border_rows(drawing)
        shapes.append(Text(EDGE, above - 10, shortened(layout.title_of(drawing.y), plane.right - EDGE), "note"))
    shapes += [shape for shape in layout.bands(drawing, plane.x, plane.top, plane.bottom) if shape.kind == "area"]
    return shapes + layout.borders(drawing, plane.x, plane.top, plane.bottom)


# --- series


def _courses(drawing: Drawing, narrow: bool) -> list[_Course]:
    most = (MOST if drawing.kind == "scatter" else OVER_TIME)[narrow]
    # Of series with named places, such as the points of a sweep, intervals stand beside each other.
    several = len(drawing.series) if drawing.x.places else 1
    step = min(APART, SPREAD / max(several - 1, 1))
    return [
        _Course(
            series=series,
            form=layout.form(index),
            colour=colour,
            stretches=list(_stretches(series, most)),
            aside=step * (index - (several - 1) / 2) if several > 1 else 0.0,
        )
        for index, (series, colour) in enumerate(zip(drawing.series, layout.colours(drawing.series), strict=True))
    ]


def _is_drawn(point: Point) -> bool:
    return layout.has_value(point.x) and layout.has_value(point.y)


def _stretches(series: Series, most: int) -> Iterator[list[Point]]:
    """The points that have a place, of very many the extremes of equal pieces; a point without one divides them."""
    drawn = [at for at, point in enumerate(series.points) if _is_drawn(point)]
    places = {drawn[at] for at in kept([series.points[at].y.value or 0.0 for at in drawn], most)}
    stretch: list[Point] = []
    for at, point in enumerate(series.points):
        if at in places:
            stretch.append(point)
        elif stretch and not _is_drawn(point):
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _legend(drawing: Drawing, courses: Sequence[_Course]) -> list[tuple[str, str, str]]:
    """The series by colour, and the roles and verdicts by form where the series do not tell them apart."""
    words_of = {point.mark for series in drawing.series for point in series.points} & {*MARKS} - {FIT}
    entries = []
    for course in courses:
        marks = {point.mark for point in course.series.points}
        word = next(iter(marks)) if len(marks) == 1 else ""
        form, kind = MARKS.get(word, (course.form, "mark"))
        colour = "" if word in MARKS and word not in (*ROLES, FIT, FRONT) else course.colour
        if (drawing.kind == "scatter" and words_of & {"variant", "baseline"} and kind != "mark") or len(marks) > 1:
            form, kind = "square", "mark"
        if course.series.name:
            entries.append((form, f"{kind} {colour}".rstrip(), course.series.name))
    words_of -= {course.series.name for course in courses}
    if any(len({point.mark for point in course.series.points}) > 1 for course in courses):
        entries += [
            (
                MARKS[word][0],
                f"{MARKS[word][1]} baseline" if word in ROLES else MARKS[word][1],
                "best variant" if word == "best" else word,
            )
            for word in MARKS
            if word in words_of
        ]
    return entries


def _lines(course: _Course, plane: _Plane, drawing: Drawing) -> list[Path]:
    if not (course.series.joined or course.is_front):
        return []
    kind = "front" if course.is_front and not course.series.joined else "course"
    paths = []
    for stretch in course.stretches:
        places = [plane.at(point, course.aside) for point in stretch]
        if course.is_front:
            places = _stepped(places)
        title = course.series.name if drawing.kind != "strip" else ""
        paths.append(Path(places, f"{kind} {course.colour}", title=title))
    return paths


def _stepped(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places from left to right, each reached across and then down."""
    steps: list[tuple[float, float]] = []
    for x, y in sorted(places):
        if steps:
            steps.append((x, steps[-1][1]))
        steps.append((x, y))
    return steps


def _marks(course: _Course, plane: _Plane, drawing: Drawing, link: Link | None) -> list[Shape]:
    shapes: list[Shape] = []
    for point in course.points:
        if point.mark == FIT:
            continue
        x, y = plane.at(point, course.aside)
        form, kind = layout.look(point, course.form, course.colour)
        colour = point.colour or course.colour
        if ends := layout.ends(point.y):
            shapes.append(line(x, plane.y(ends[0]), x, plane.y(ends[1]), f"whisker {colour}"))
            shapes += [_cut((x, end), (0.0, way), colour) for end, way in _beyond(plane.y, ends)]
        if ends := layout.ends(point.x):
            shapes.append(line(plane.x(ends[0]), y, plane.x(ends[1]), y, f"whisker {colour}"))
            shapes += [_cut((end, y), (way, 0.0), colour) for end, way in _beyond(plane.x, ends)]
        size = 2.0 if drawing.kind == "strip" else 3.5
        shapes.append(svg.mark(x, y, size, form, kind, layout.tip(point, drawing), layout.href(point, link)))
    return shapes


def _beyond(scale: Scale, ends: tuple[float, float]) -> list[tuple[float, float]]:
    """The ends of an axis that an interval exceeds, with the direction in which it does, in pixels."""
    way = 1.0 if scale.right > scale.left else -1.0
    below = [(scale.left, -way)] if ends[0] < scale.low else []
    return below + ([(scale.right, way)] if ends[1] > scale.high else [])


def _cut(tip: tuple[float, float], way: tuple[float, float], colour: str) -> Path:
    """An arrow head where an interval goes on beyond the plane."""
    (x, y), (right, down) = tip, way
    corners = [(x - ARROW * (right + side * down), y - ARROW * (down + side * right)) for side in (0.7, -0.7)]
    return Path([tip, *corners], f"cut {colour}", closed=True, title="the interval goes on beyond the plane")


# --- names beside points


def _labels(courses: Sequence[_Course], lines: Sequence[Path], plane: _Plane) -> tuple[list[Shape], set[str]]:
    """Names where they cover neither marks, lines nor each other, those of limits and of the best first.

    A name without such a place is left out: the tip has it. Also the short names that have a place.
    """
    points = [(point, *plane.at(point, course.aside)) for course in courses for point in course.points]
    taken = [box for point, x, y in points for box in _covered(point, x, y, plane)]
    fits = {id(course.series): all(point.mark == FIT for point in course.points) for course in courses}
    # The lines of fits are limits, such as roofs; a line through points may pass behind a name.
    limits = [path for path in lines if any(fits[id(c.series)] and path.title == c.series.name for c in courses)]
    taken += [box for path in limits for box in _pieces(path)]
    shapes: list[Shape] = []
    leaders: list[Shape] = []
    names: list[Box] = []
    written: set[str] = set()
    for point, x, y in sorted(points, key=lambda place: (bool(place[0].short), place[0].mark not in (FIT, "best"))):
        kind, wide = ("label strong", layout.BOLD) if point.mark == "best" else ("note", 1.0)
        # Of a mark the end of its name stays, where its figure is.
        label, brief = (
            shortened(point.label, width, keeps_end=point.mark != FIT)
            for width in (LONGEST, max(BRIEF * text_width(point.label[:80]), BRIEFEST))
        )
        for text in (point.short,) if point.short else dict.fromkeys((label, brief)) if label else ():
            width = text_width(text) * wide
            nearest = PLACES if not point.short else [place for place in PLACES if abs(place[0]) <= LABEL]
            place = _place(width, (x, y), _reach(point, x, plane), nearest, taken, names, plane)
            if place:
                left, middle = place
                names.append((left, middle - LABEL / 2, left + width, middle + LABEL / 2))
                taken.append(names[-1])
                if abs(middle - y) > LABEL:
                    leader = _leader((x, y), left, width, middle)
                    leaders.append(leader)
                    taken += _pieces(leader)
                shapes.append(Text(left, middle + 4, text, kind, title=point.label if text != point.label else ""))
                written.add(point.short)
                break
    return [*leaders, *shapes], written


def _key(points: Sequence[Point], written: set[str], top: float, wide: float) -> tuple[list[Shape], float]:
    """The labels of short names below the plane in columns, and the bottom of the last row."""
    texts = [f"{point.short} {point.label}" for point in points if point.short in written]
    rows = max(1, int((wide - 2 * EDGE) // KEY))
    texts, more = texts[: MOST_ROWS * rows], len(points) - len(texts[: MOST_ROWS * rows])
    if more:
        texts.append(f"{more:,} more have their names in their tips")
    column = (wide - 2 * EDGE) / rows
    shapes: list[Shape] = [
        Text(
            EDGE + at % rows * column,
            top + 12 + LABEL * (at // rows),
            shortened(text, column - 8, keeps_end=True),
            "note",
        )
        for at, text in enumerate(texts)
    ]
    return shapes, top + (LABEL * -(-len(texts) // rows) + 8 if texts else 0.0)


def _place(
    width: float,
    mark: tuple[float, float],
    reach: tuple[float, float],
    places: Sequence[tuple[float, int]],
    taken: Sequence[Box],
    names: Sequence[Box],
    plane: _Plane,
) -> tuple[float, float] | None:
    """The left end and the middle line of the first free place for a label whose leader crosses no name, or None."""
    for shift, side in places:
        left, middle = reach[1] + 5 if side > 0 else reach[0] - 5 - width, mark[1] + shift
        if not _is_free((left, middle - LABEL / 2, left + width, middle + LABEL / 2), taken, plane):
            continue
        if abs(shift) <= LABEL or not any(
            _is_covering(piece, name) for piece in _pieces(_leader(mark, left, width, middle)) for name in names
        ):
            return left, middle
    return None


def _leader(mark: tuple[float, float], left: float, width: float, middle: float) -> Path:
    """The line from a mark to its label."""
    return line(*mark, left - 2 if left > mark[0] else left + width + 2, middle, "leader")


def _is_covering(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _is_free(box: Box, taken: Sequence[Box], plane: _Plane) -> bool:
    left, top, right, bottom = box
    if left < plane.left or right > plane.right + EDGE or top < plane.top or bottom > plane.bottom:
        return False
    return not any(_is_covering(box, other) for other in taken)


def _reach(point: Point, x: float, plane: _Plane) -> tuple[float, float]:
    """The left and the right end of a mark with its whiskers."""
    ends = layout.ends(point.x)
    return (min(x - 4, plane.x(ends[0])), max(x + 4, plane.x(ends[1]))) if ends else (x - 4, x + 4)


def _covered(point: Point, x: float, y: float, plane: _Plane) -> Iterator[Box]:
    """The boxes that a mark and its whiskers cover."""
    if point.mark == FIT:
        return
    yield (x - MARK, y - MARK, x + MARK, y + MARK)
    if ends := layout.ends(point.x):
        yield (plane.x(ends[0]), y - 1, plane.x(ends[1]), y + 1)
    if ends := layout.ends(point.y):
        yield (x - 1, plane.y(ends[1]), x + 1, plane.y(ends[0]))


def _pieces(path: Path) -> Iterator[Box]:
    """The boxes that a line covers, in small pieces."""
    for (x1, y1), (x2, y2) in zip(path.points, path.points[1:], strict=False):
        count = max(1, int(max(abs(x2 - x1), abs(y2 - y1)) / 6) + 1)
        for index in range(count + 1):
            x, y = x1 + (x2 - x1) * index / count, y1 + (y2 - y1) * index / count
            yield (x - 3, y - 3, x + 3, y + 3)
