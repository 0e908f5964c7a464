"""What a series says: its steps and drift, and whether its newest run is as before."""

from collections.abc import Sequence

from attrs import frozen

from aiperf_analysis.history.changes import LEAST_SIDE, PERMUTATIONS, Course, course
from aiperf_analysis.history.newest import Standing, newest
from aiperf_analysis.history.noise import logs
from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import Better
from aiperf_core.report.result import Figure

LEAST = 8  # runs of a series
FALSE_DISCOVERIES = 0.05
_MOST_PERMUTATIONS = 100_000


@frozen
class Judged:
    """What was found. `course` is None for too few runs; `standing` then says what is missing."""

    course: Course | None
    standing: Standing


def judged(figures: Sequence[Estimate], floor: float, better: Better, family: int = 1) -> Judged:
    """Judge a series of figures in their order.

    floor: the smallest relative change that matters.
    family: the number of series that are judged together.
    """
    if len(figures) < LEAST:
        missing = LEAST - len(figures)
        reason = f"{units.plural('run', len(figures))} of {LEAST}: {missing} more needed"
        return Judged(None, Standing("NEW", None, None, 0, len(figures), reason))
    values, within = logs(figures)
    # Of many series, a step must be rarer than the least probability that few permutations can show.
    permutations = min(_MOST_PERMUTATIONS, max(PERMUTATIONS, round(2 * family / FALSE_DISCOVERIES) - 1))
    standing = newest(values, within, floor, better, family=max(1, family))
    kept = settled(len(figures), standing)
    return Judged(course(values[:kept], within[:kept], floor, permutations=permutations), standing)


def without_steps(figures: Sequence[Estimate], floor: float, standing: Standing) -> Course:
    """The course of a series whose steps may be chance."""
    values, within = logs(figures)
    kept = settled(len(figures), standing)
    return course(values[:kept], within[:kept], floor, alpha=0.0)


def settled(runs: int, standing: Standing) -> int:
    """The number of runs whose level is sought: without newest runs beyond it that are too few for a level."""
    return runs - (standing.agree if standing.agree < LEAST_SIDE else 0)


def change(ratio: Estimate) -> Figure:
    """A ratio of two levels as a change in percent."""
    return Figure(
        value=100 * (ratio.value - 1),
        low=100 * (ratio.low - 1),
        high=100 * (ratio.high - 1),
        unit="%",
        certainty="derived",
    )


def direction(ratio: Estimate, better: Better) -> str:
    """Whether a step is for the worse or for the better."""
    return "WORSE" if (ratio.value > 1) == (better == "down") else "BETTER"
