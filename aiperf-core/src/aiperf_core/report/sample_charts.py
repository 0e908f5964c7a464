"""The drawings of a target: the interval of its speedup, and the times, the distribution and the course of its samples.

An implementation has the same colour in all of them (see `marks`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.report import cell_text
from aiperf_core.report import samples as sampled
from aiperf_core.report.layout import NARROW
from aiperf_core.report.marks import FIT, colours
from aiperf_core.report.picture import picture
from aiperf_core.report.result import Axis, Band, Drawing, Figure, Origin, Point, Series, counted, figure
from aiperf_core.report.samples import RowSamples
from aiperf_core.report.svg import Picture
from aiperf_core.results.models import Row, TargetResult

# On a scale that starts at zero, a time five times less is still a length that a reader can compare.
LINEAR = 5.0
FEW = 12  # samples; fewer have no quantiles worth drawing
SEPARATE = 40  # points of a course; more are a line without marks

# From the name of an implementation to its address.
Link = Callable[[str], str]


@frozen(kw_only=True)
class Subject:
    """A target whose samples are drawn.

    rows: the rows that have samples.
    best: the best variant.
    colours: the class of the colour of each implementation.
    """

    target: str
    rows: Sequence[RowSamples]
    best: Row | None
    colours: Mapping[str, str]


@frozen(kw_only=True)
class Chart:
    """A picture with its title, and sentences on its marks. Only marks that are drawn are mentioned."""

    title: str
    about: Sequence[str]
    picture: Picture


def subject(result: TargetResult, best: Row | None) -> Subject:
    """A target with the rows that have samples."""
    shared = colours((row.name, row.role) for row in result.rows)
    return Subject(target=result.target, rows=sampled.of_rows(result), best=best, colours=shared)


def of_target(result: TargetResult, best: Row | None, link: Link | None = None) -> list[Chart]:
    """All pictures of a target; none where it has no samples. `link` gives the address of an implementation."""
    target = subject(result, best)
    if not target.rows:
        return []
    several = [_speedups(target, result.floor, link)] if any(_compared(target)) else []
    return [*several, _times(target), *of_samples(target)]


def of_samples(target: Subject) -> list[Chart]:
    """The distribution and the course of the samples of a target that has some."""
    return [_distributions(target), _courses(target)]


def speedups(points: Sequence[Point], *, title: str, floor: float = 0.0) -> Drawing:
    """Speedups with their intervals and verdicts on one logarithmic axis, beside the band that is no difference."""
    band = Band(begin=1 - floor, end=1 + floor, title=f"differences up to {units.percent(floor)} do not matter")
    return Drawing(
        name="speedups",
        title=title,
        kind="intervals",
        message=_message(points),
        x=Axis(title="speedup, larger is better, logarithmic", log=True),
        y=Axis(title="", unit="count"),
        series=[Series(name="speedups", points=list(points))],
        bands=[band] if floor else [],
    )


def glance(points: Sequence[Point]) -> Drawing:
    """The speedup of a variant of each target, whose name the label of its point begins with, grouped by chapter."""
    chapters: dict[str, list[Point]] = {}
    for point in points:
        chapter, _, name = point.label.partition(".")
        chapters.setdefault(chapter, []).append(evolve(point, label=name or chapter))
    if len(chapters) == 1:  # it has no heading with the chapter's name
        chapters = {name: list(points) for name in chapters}
    drawn = evolve(speedups(points, title=""), name="glance")
    return evolve(drawn, series=[Series(name=name, points=some) for name, some in chapters.items()])


def _message(points: Sequence[Point]) -> str:
    """How many points have each verdict, and which has the largest difference."""
    drawn = [point for point in points if point.x.value]
    if not drawn:
        return "no figures to draw"
    counts: dict[str, int] = {}
    for point in drawn:
        counts[point.mark or "without a verdict"] = counts.get(point.mark or "without a verdict", 0) + 1
    far = max(drawn, key=lambda point: max(point.x.value or 1.0, 1 / (point.x.value or 1.0)))
    verdicts = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{verdicts}; farthest from 1x: {far.label}, {cell_text.whole(far.x)}"


def _speedups(target: Subject, floor: float, link: Link | None) -> Chart:
    points = [
        Point(
            label=row.name,
            x=figure(speedup),
            y=counted(float(index), "count"),
            mark=row.verdict.value,
            origin=Origin("", target.target, row.name),
        )
        for index, (row, speedup) in enumerate(_compared(target))
    ]
    drawing = speedups(points, title="", floor=floor)
    about = [f"Lines are intervals of 95 %. The band is {floor * 100:g} % around 1: no significant difference."]
    drawn = picture(drawing, lambda origin: link(origin.row or "") if link else "", NARROW)
    return Chart(title="Speedup", about=about, picture=evolve(drawn, title=f"speedups of {target.target}"))


def _compared(target: Subject) -> Iterator[tuple[Row, Estimate]]:
    rows = (samples.row for samples in target.rows)
    return ((row, row.speedup) for row in rows if row.speedup is not None and row.is_believed)


def _chart(title: str, about: Sequence[str], drawings: Sequence[Drawing], target: Subject, message: str) -> Chart:
    drawn = picture(drawings, wide=NARROW)
    return Chart(
        title=title, about=about, picture=evolve(drawn, title=f"{title.lower()} of {target.target}", alt=message)
    )


def _times(target: Subject) -> Chart:
    """For each row the median and the spread of its samples on one scale; and the speed of light."""
    rows = target.rows
    quantiles = [row.quantiles(0.01, 0.25, 0.5, 0.75, 0.99) for row in rows]
    low, high = min(spread[0] for spread in quantiles), max(spread[4] for spread in quantiles)
    log = high / min(spread[2] for spread in quantiles) > LINEAR
    sol = min((row.row.speed_of_light.time_s for row in rows if row.row.speed_of_light), default=None)
    is_sol_shown = sol is not None and (not log or sol > low / 30)
    points = [
        Point(
            label=_name(row),
            x=Figure(value=spread[2], low=spread[0], high=spread[4], unit="s"),
            y=counted(float(index), "count"),
            mark="best"
            if row.row is target.best
            else row.row.role
            if row.row.role in ("baseline", "yardstick")
            else "",
            colour=target.colours[row.row.name],
            middle=(spread[1], spread[3]) if len(row.times) >= FEW else None,
        )
        for index, (row, spread) in enumerate(zip(rows, quantiles, strict=True))
    ]
    about = ["Marks are medians, thin lines the middle 98 % of the samples."]
    if any(point.middle for point in points):
        about.append("Thick lines are the middle half.")
    if sol is not None and not is_sol_shown:
        about.append(f"The speed of light (SOL), {units.seconds(sol)}, is outside of the picture.")
    believed = [row for row in rows if row.row.is_believed]
    least = min(believed, key=lambda row: row.median).row.name if len(believed) > 1 else ""
    message = f"{least} has the lowest median time per call: " if least else "median time per call: "
    message += ", ".join(f"{row.row.name} {units.seconds(row.median)}" for row in rows)
    drawing = Drawing(
        name="times",
        title="",
        kind="intervals",
        message=message,
        x=Axis(title="time per call", unit="s", log=log),
        y=Axis(title="", unit="count"),
        series=[Series(name="implementations", points=points)],
        borders={f"SOL {units.seconds(sol)}": sol} if is_sol_shown and sol is not None else {},
    )
    return _chart("Time per call", about, [drawing], target, message)


def _distributions(target: Subject) -> Chart:
    """For each row the share of its samples up to each time, in a range of its own; and the same of each round."""
    drawings = [_distribution(row, target) for row in target.rows]
    about = ["Share of the samples that take at most a time; each strip has a range of its own."]
    if any(len(drawing.series) > 1 for drawing in drawings):
        about.append("Dashed lines: each process round.")
    message = "the middle half of the samples is as wide as: "
    message += ", ".join(f"{row.row.name} {units.percent(_width(row))} of the median" for row in target.rows)
    return _chart("Distribution of the samples", about, drawings, target, message)


def _distribution(row: RowSamples, target: Subject) -> Drawing:
    low, high = sampled.strip_range(row)
    outside = sampled.beyond(row, low, high)
    facts = [_name(row), units.plural("sample", len(row.times))]
    facts += [f"IQR {units.percent(_width(row))}"] if len(row.times) > 3 else []
    facts += [f"{outside:,} outside"] if outside else []
    rounds = sampled.shares_of_rounds(row)
    courses = [(f"round {number}", shares, "second") for number, shares in enumerate(rounds, 1) if len(rounds) > 1]
    courses.append((row.row.name, sampled.shares(row.times), target.colours[row.row.name]))
    return Drawing(
        name="distribution",
        title=", ".join(facts),
        kind="strip",
        message=_name(row),
        x=Axis(title="time per call", unit="s", ends=(low, high)),
        y=Axis(title="share of the samples", unit="%", ends=(0.0, 100.0)),
        series=[
            Series(
                name=name,
                points=[
                    Point(label="", x=counted(time, "s"), y=counted(share, "%"), mark=FIT, colour=colour)
                    for time, share in shares
                ],
                joined=True,
            )
            for name, shares, colour in courses
        ],
    )


def _width(row: RowSamples) -> float:
    """The interquartile range as a share of the median."""
    p25, p75 = row.quantiles(0.25, 0.75)
    return (p75 - p25) / row.median


def _courses(target: Subject) -> Chart:
    """For each row the medians of its blocks in their order, each in a range of its own."""
    blocks = [sampled.series(row) for row in target.rows]
    last = max(max(points[-1].block for points in blocks), 1)
    starts = _starts(blocks)
    drawings = []
    held = outside = 0
    for row, points in zip(target.rows, blocks, strict=True):
        low, high = sampled.span([point.deviation for point in points], sampled.LEAST_REACH)
        reach = 105 * max(-low, high)
        marks = [_mark(point, reach, len(points)) for point in points]
        held, outside = held + marks.count("throttled"), outside + marks.count("outside")
        colour = target.colours[row.row.name]
        drawings.append(
            Drawing(
                name="course",
                title=_name(row),
                kind="strip",
                message=_name(row),
                x=Axis(
                    title="block, in the order taken" if row is target.rows[-1] else "", unit="count", ends=(0.0, last)
                ),
                y=Axis(title="deviation", unit="%", ends=(-reach, reach)),
                series=[
                    Series(
                        name=row.row.name,
                        points=[
                            Point(
                                label=f"block {point.block}",
                                x=counted(point.block, "count"),
                                y=counted(100 * point.deviation, "%"),
                                mark=mark,
                                colour=colour,
                            )
                            for point, mark in zip(points, marks, strict=True)
                        ],
                        joined=True,
                    )
                ],
                borders={f"round {number}": at for number, at in enumerate(starts, 2)},
            )
        )
    about = ["Medians of blocks, as deviations from the median of the row; each strip has a range of its own."]
    about += ["Red dots: throttled."] if held else []
    about += ["Circles at an edge: outside of the range."] if outside else []
    about += ["Vertical lines: a new process round."] if starts else []
    message = f"throttled in {held} of these medians" if held else "never seen throttled"
    largest = [max(abs(point.deviation) for point in points) for points in blocks]
    each = (f"{row.row.name} {units.percent(most)}" for row, most in zip(target.rows, largest, strict=True))
    message += f"; largest deviation of a block: {', '.join(each)}"
    return _chart("Time series", about, drawings, target, message)


def _mark(point: sampled.Point, reach: float, count: int) -> str:
    if point.throttled:
        return "throttled"
    if abs(100 * point.deviation) > reach:
        return "outside"
    return "" if count <= SEPARATE else FIT


def _starts(blocks: Sequence[Sequence[sampled.Point]]) -> list[float]:
    """The blocks before which a round of fresh processes begins; the first round is left out."""
    firsts: dict[int, int] = {}
    for point in (point for points in blocks for point in points):
        firsts[point.round] = min(point.block, firsts.get(point.round, point.block))
    return [block - 0.5 for block in sorted(firsts.values())[1:]]


def _name(row: RowSamples) -> str:
    """The name of a row, with its verdict where it is not believed."""
    return row.row.name if row.row.is_believed else f"{row.row.name}, {row.row.verdict.value}"
