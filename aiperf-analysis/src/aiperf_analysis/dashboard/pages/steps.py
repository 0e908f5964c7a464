"""The steps of a series: where its level changed, by how much, and how sure that is. As in the history analysis."""

from collections.abc import Iterable, Sequence

from attrs import frozen

from aiperf_analysis.history.changes import Step
from aiperf_analysis.history.judged import LEAST, Judged, change, direction, judged
from aiperf_analysis.history.noise import finite_exp
from aiperf_analysis.sources.courses import RunCourse
from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.report import cell_text
from aiperf_core.report.marks import FIT
from aiperf_core.report.metrics import Metric
from aiperf_core.report.result import Band, Cell, Column, Origin, Point, Record, Series, Table, counted

MOST_SOUGHT = 1_000  # newest runs in which steps are sought: more would keep a reader waiting
MOST_TOLD = 4
NOTE = "A step is a change of level that chance makes in at most 1 % of series. It lies between these runs with 95 %."
COLUMNS = [
    Column("at", "first run", "figure"),
    Column("created", "began"),
    Column("commit", "commit"),
    Column("range", "between runs"),
    Column("change", "change", "figure"),
    Column("direction", "direction", "verdict"),
    Column("p", "p"),
]


@frozen
class Run:
    """A run of the series that has the figure. `number` counts those, from 1."""

    number: int
    created: str
    git: str | None
    verdict: str
    figure: Estimate
    origin: Origin


@frozen(kw_only=True)
class Found:
    """The steps of a series.

    skipped: the number of oldest runs in which none were sought.
    runs: the number of all runs.
    """

    metric: Metric
    floor: float
    skipped: int
    runs: int
    judged: Judged

    @property
    def steps(self) -> Sequence[Step]:
        """The steps, in order. Their runs count from the first that was searched."""
        return self.judged.course.steps if self.judged.course else ()

    def number(self, at: int) -> int:
        """The number of a run in the series, from 1."""
        return self.skipped + at + 1

    def cells(self, step: Step) -> dict[str, Cell]:
        """What is known of a step."""
        return {
            "at": self.number(step.at),
            "range": f"{self.number(step.first):,} to {self.number(step.last):,}",
            "change": change(step.ratio),
            "direction": direction(step.ratio, self.metric.better),
            "p": f"{step.p:.2g}",
        }

    @property
    def told(self) -> str:
        """The steps as a sentence."""
        if self.judged.course is None:
            return f"Steps need {LEAST} runs with this figure: {self.judged.standing.reason}."
        steps = [self._told(one) for one in reversed(self.steps)]
        more = f"; and {len(steps) - MOST_TOLD} older" if len(steps) > MOST_TOLD else ""
        told = "; ".join(steps[:MOST_TOLD]) + more
        what = (
            f"{units.plural('step', len(steps))}: {told}." if steps else f"No step of {100 * self.floor:g} % or more."
        )
        return f"{what}{self._where}"

    def _told(self, step: Step) -> str:
        found = change(step.ratio)
        size = f"{found.value:+.3g} % {cell_text.interval(found)}".rstrip()
        first, last = self.number(step.first), self.number(step.last)
        place = f"at run {self.number(step.at):,}"
        between = f" (between runs {first:,} and {last:,})" if last > first else ""
        return f"{size} {place}{between}, {direction(step.ratio, self.metric.better)}"

    @property
    def _where(self) -> str:
        return f" Steps were sought among the newest {self.runs - self.skipped:,} runs." if self.skipped else ""


def runs_of(course: RunCourse, metric: str) -> list[Run]:
    """The runs of a series that have the figure."""
    key = course.key
    found = [(at, one) for at, one in enumerate(course.figures[metric]) if one is not None]
    return [
        Run(
            number=number,
            created=course.created[at],
            git=course.git[at],
            verdict=course.verdict[at],
            figure=one,
            origin=Origin(course.bundle[at], key.target, key.implementation),
        )
        for number, (at, one) in enumerate(found, 1)
    ]


def find(every: Sequence[Run], metric: Metric, floor: float) -> Found:
    """Look for steps among the newest runs of a series."""
    skipped = max(0, len(every) - MOST_SOUGHT)
    newest = [one.figure if one.figure.low > 0 else _alone(one.figure) for one in every[skipped:]]
    return Found(
        metric=metric, floor=floor, skipped=skipped, runs=len(every), judged=judged(newest, floor, metric.better)
    )


def _alone(figure: Estimate) -> Estimate:
    """A figure whose interval has no logarithm, without it."""
    return Estimate(figure.value, figure.value, figure.value)


def table(found: Found, every: Sequence[Run]) -> Table:
    """The steps, newest first, each with the samples of the runs before and after it."""
    records = []
    for one in reversed(found.steps):
        before, after = every[found.number(one.at) - 2], every[found.number(one.at) - 1]
        cells: dict[str, Cell] = {
            **found.cells(one),
            "created": after.created[:19],
            "commit": (after.git or "")[:12] or None,
        }
        records.append(Record(cells, [before.origin, after.origin]))
    return Table("steps", "Steps", COLUMNS, records, NOTE)


def borders(found: Found, first: int, last: int) -> dict[str, float]:
    """The steps between two runs, as names with places on the axis: half a run before the first run of a level."""
    return {
        f"{change(one.ratio).value:+.2g} % at run {found.number(one.at):,}": found.number(one.at) - 0.5
        for one in found.steps
        if first < found.number(one.at) <= last
    }


def bands(found: Found, first: int, last: int) -> list[Band]:
    """The runs between which each step lies with 95 %."""
    ends = [(found.number(one.first), found.number(one.last), one) for one in found.steps]
    return [
        Band(
            begin=max(begin, first) - 0.5,
            end=min(end, last) - 0.5,
            title=f"the step at run {found.number(one.at):,} lies between runs {begin:,} and {end:,} with 95 %",
        )
        for begin, end, one in ends
        if end > begin and begin <= last and end >= first
    ]


def levels(found: Found, first: int, last: int) -> list[Series]:
    """The levels between the steps as a line, within a range of runs; none where a series has too few."""
    points = [
        Point(label="", x=counted(place, "count"), y=counted(finite_exp(level), found.metric.unit), mark=FIT)
        for begin, end, level in _segments(found)
        if begin <= last and end >= first
        for place in (max(begin, first) - 0.5, min(end, last) + 0.5)
    ]
    return [Series(name="level", points=points, joined=True)] if points else []


def _segments(found: Found) -> Iterable[tuple[int, int, float]]:
    """The first and the last run of each level, and its logarithm."""
    course = found.judged.course
    for one in course.segments if course else ():
        yield found.number(one.start), found.number(one.stop - 1), one.level
