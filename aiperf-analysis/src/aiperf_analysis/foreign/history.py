"""The results of other tools over time: steps, and the newest of each benchmark beside those before."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from attrs import field, frozen

from aiperf_analysis.foreign.model import Figure as Measured
from aiperf_analysis.foreign.model import Results, chosen
from aiperf_analysis.history.changes import ALPHA
from aiperf_analysis.history.judged import (
    FALSE_DISCOVERIES,
    LEAST,
    Judged,
    change,
    direction,
    judged,
    without_steps,
)
from aiperf_analysis.history.newest import Standing
from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import Cell, Column, Figure, LeftOut, Record, Result, Table, counted
from aiperf_core.results.listing import moment


@frozen
class _Course:
    """The figures of a benchmark on one machine, the oldest first, with what they were measured by."""

    tool: str
    machine: str
    title: str
    unit: str
    runs: list[tuple[Results, Measured]] = field(factory=list)

    def values(self, statistic: str | None) -> list[float]:
        """The statistic that was asked for, of each run."""
        return [figure.statistics[chosen(figure, statistic)] for _, figure in self.runs]


def analyze(results: Sequence[Results], pattern: str | None, statistic: str | None, floor: float) -> Result:
    """Judge all series of results; those of one benchmark, machine and tool are one series.

    pattern: of the names that are looked at; None takes all.
    statistic: None takes the usual one.

    Raises UsageError where nothing has such a name, or the statistic.
    """
    ordered = sorted(results, key=lambda one: moment(one.created))
    courses = _courses(ordered, pattern)
    if not courses:
        there = sorted({figure.title for one in results for figure in one.figures})
        named = f"no benchmark is named {words(pattern)!r}" if pattern else "no file has a figure"
        raise UsageError(f"{named}. There are: {', '.join(map(words, there[:20])) or 'none'}.")
    long_ones = sum(len(one.runs) >= LEAST for one in courses)
    found = [(one, _judged(one.values(statistic), floor, long_ones)) for one in courses]
    standings = [one.standing for _, one in found]
    worse = [f"{words(course.title)}: {one.standing.word}, {one.standing.reason}." for course, one in found
             if one.standing.word in ("REGRESSION", "SUSPECT")]  # fmt: skip
    counts = f"{len(courses)} series of {units.plural('file', len(results))}; {long_ones} with at "
    newest = [_newest(course, one, statistic) for course, one in found]
    return Result(
        analysis="foreign_history",
        title="Results of other tools",
        summary=[*worse, f"{counts}least {LEAST} runs."],
        status="regression" if any(one.word == "REGRESSION" for one in standings) else "ok",
        options={"name": pattern, "statistic": statistic, "floor": floor},
        tables=[
            Table("newest", "the newest of each benchmark", _NEWEST, newest),
            Table("steps", "steps", _STEPS, [record for course, one in found for record in _steps(course, one)]),
        ],
        assumptions=[
            "Figures are the statistics that the tools wrote. An interval is that of the series: the tools' own spread "
            "within a run does not enter.",
            "Less is better, of every figure.",
        ],
        left_out=_left_out(ordered),
    )


def _courses(results: Sequence[Results], pattern: str | None) -> list[_Course]:
    found: dict[tuple[str, str, str, str], _Course] = {}
    for one in results:
        for figure in one.figures:
            if pattern is None or fnmatchcase(figure.title, pattern):
                key = (one.tool, one.machine, figure.title, figure.unit)
                found.setdefault(key, _Course(*key)).runs.append((one, figure))
    return list(found.values())


def _judged(values: list[float], floor: float, family: int) -> Judged:
    """The course of a series. Among many series a step must be rarer, so that all of them have few false ones."""
    figures = [Estimate(value, value, value) for value in values]
    if min(values) <= 0:
        return Judged(None, Standing("NEW", None, None, 0, len(values), "a figure of 0 or less has no ratio"))
    found = judged(figures, floor, "down", family)
    if found.course and found.course.p > min(ALPHA, FALSE_DISCOVERIES / max(1, family)):
        return Judged(without_steps(figures, floor, found.standing), found.standing)
    return found


_NEWEST = [
    Column("name", "benchmark"),
    Column("tool", "tool"),
    Column("machine", "machine"),
    Column("statistic", "statistic"),
    Column("value", "newest", "figure"),
    Column("runs", "runs"),
    Column("verdict", "verdict", "verdict"),
    Column("change", "newest / expected", "figure"),
    Column("why", "why"),
]


def _newest(course: _Course, found: Judged, statistic: str | None) -> Record:
    figure, standing = course.runs[-1][1], found.standing
    expected, name = standing.expected, chosen(figure, statistic)
    ratio: Figure | None = None
    if standing.change is not None and expected is not None:
        ends = (expected.low / expected.value, expected.high / expected.value)
        ratio = Figure(value=standing.change, low=ends[0], high=ends[1], certainty="derived")
    cells: dict[str, Cell] = {
        "name": course.title,
        "tool": course.tool,
        "machine": course.machine or None,
        "statistic": name,
        "value": counted(figure.statistics[name], course.unit or "number"),
        "runs": len(course.runs),
        "verdict": standing.word,
        "change": ratio,
        "why": standing.reason,
    }
    return Record(cells)


_STEPS = [
    Column("name", "benchmark"),
    Column("at", "first run"),
    Column("commit", "commit"),
    Column("change", "change", "figure"),
    Column("direction", "direction", "verdict"),
    Column("p", "p"),
]


def _steps(course: _Course, found: Judged) -> list[Record]:
    return [
        Record(
            {
                "name": course.title,
                "at": course.runs[step.at][0].created,
                "commit": course.runs[step.at][0].commit[:12] or None,
                "change": change(step.ratio),
                "direction": direction(step.ratio, "down"),
                "p": f"{step.p:.2g}",
            }
        )
        for step in (found.course.steps if found.course else ())
    ]


def _left_out(results: Sequence[Results]) -> list[LeftOut]:
    """Unusable figures, and benchmarks that the newest results of their tool and machine no longer have."""
    found = [LeftOut(one.tool, "", problem) for one in results for problem in one.problems]
    found += [LeftOut(name, "SKIPPED", reason) for one in results for name, reason in one.skipped.items()]
    of_places: dict[tuple[str, str], list[Results]] = {}
    for one in results:
        of_places.setdefault((one.tool, one.machine), []).append(one)
    for those in of_places.values():
        for before, after in pairwise(those):
            gone = {figure.title for figure in before.figures} - {figure.title for figure in after.figures}
            found += [
                LeftOut(name, "", f"not in the results of {after.created}, but in those before")
                for name in sorted(gone)
            ]
    return found
