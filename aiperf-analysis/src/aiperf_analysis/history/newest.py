"""What the newest run says: as before, a suspect, or a regression that a second run confirms."""

import math
from typing import Literal

import numpy as np
from attrs import frozen

from aiperf_analysis.history.changes import Course, Segment, course
from aiperf_analysis.history.noise import finite_exp, long_run
from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import Better
from aiperf_core.stats.distributions import t_quantile
from aiperf_core.stats.draws import Floats

Word = Literal["FINE", "TOO NOISY", "SUSPECT", "REGRESSION", "IMPROVED", "NEW"]

# The least number of runs of a level that a run is held to.
LEAST_RUNS = 5
# An interval in which a run of twice the usual figure, or of half of it, is as usual says nothing.
TOO_WIDE = 2.0
# The probability that a run as usual lies outside of the prediction interval of one series, on either side.
MISS = 0.002


@frozen
class Standing:
    """The newest run beside the level before it.

    word: `NEW` where there is no level of enough runs; `TOO NOISY` where the prediction interval is too wide to see a
        change by a factor of two; `SUSPECT` for a run beyond the interval, which is confirmed or
        refuted by the next; `REGRESSION` and `IMPROVED` where enough runs in a row agree.
    expected: the figure that was to be expected, with the prediction interval for one run.
    change: the newest figure divided by the expected one.
    agree: the number of runs in a row, up to the newest, that lie beyond the interval.
    runs: the number of runs of the level.
    reason: why there is no answer, or what it rests on.
    worse: whether a suspect, or a confirmed change, is in the direction that is worse.
    """

    word: Word
    expected: Estimate | None
    change: float | None
    agree: int
    runs: int
    reason: str
    worse: bool = False


def newest(
    values: Floats,
    within: Floats,
    floor: float,
    better: Better,
    *,
    confirm: int = 1,
    family: int = 1,
    seed: int = 0,
) -> Standing:
    """Hold the newest run to the level before it.

    confirm: the runs that must agree with a suspect.
    family: the number of series that are looked at together. Their false alarms add up, so each has a wider interval.
        Two runs must agree, so its probability falls with the root of the number.
    """
    best: tuple[int, Segment, Course] | None = None
    compared: tuple[Segment, Course] | None = None
    miss = MISS / family ** (1 / (1 + confirm))
    for tail in range(1, max(LEAST_RUNS, confirm + 2)):
        before = values[:-tail]
        if len(before) < LEAST_RUNS:
            break
        found = course(before, within[:-tail], floor, seed, levels_only=True)
        level = next((one for one in reversed(found.segments) if one.runs >= LEAST_RUNS), None)
        if level is None:
            continue
        compared = compared or (level, found)
        if level.stop <= compared[0].start:
            break  # there are enough runs of a newer level
        sides = {_side(values[place], within[place], level, found, floor, miss) for place in range(-tail, 0)}
        if len(sides) == 1 and 0 not in sides:
            best = tail, level, found
    if best is None:
        return _usual(values, within, compared, miss)
    agree, level, found = best
    slower = _side(values[-1], within[-1], level, found, floor, miss) > 0
    worse = slower == (better == "down")
    word: Word = "SUSPECT" if agree <= confirm else "REGRESSION" if worse else "IMPROVED"
    if word == "SUSPECT":
        missing = units.plural("more such run", confirm + 1 - agree)
        reason = f"{'worse' if worse else 'better'} than expected; {missing} would confirm it"
    else:
        reason = f"{agree} runs in a row agree"
    expected = _expected(level, found, within[-1], miss)
    return Standing(word, expected, finite_exp(values[-1] - level.level), agree, level.runs, reason, worse)


def _usual(values: Floats, within: Floats, compared: tuple[Segment, Course] | None, miss: float) -> Standing:
    if compared is None:
        there = len(values) - 1
        reason = f"{there} runs before it; a level needs {LEAST_RUNS} of them without a step"
        return Standing("NEW", None, None, 0, there, reason)
    level, found = compared
    expected = _expected(level, found, within[-1], miss)
    change = finite_exp(values[-1] - level.level)
    wide = expected.high / expected.value
    if wide > TOO_WIDE:
        reason = f"the runs differ: only a change beyond {units.number(wide)}x would be seen"
        return Standing("TOO NOISY", expected, change, 0, level.runs, reason)
    return Standing("FINE", expected, change, 0, level.runs, "within the interval")


def _half(level: Segment, found: Course, within: float, miss: float) -> float:
    """Half the width of the prediction interval of one run."""
    runs = sum(one.runs for one in found.segments)
    # Alike runs tell less of their spread.
    freedom = max(2.0, (runs - len(found.segments)) / long_run(found.alike))
    return t_quantile(1 - miss / 2, freedom) * math.sqrt(max(found.sd**2, within) + level.error**2)


def _side(value: float, within: float, level: Segment, found: Course, floor: float, miss: float) -> int:
    """1 where a run lies above the interval and the floor, -1 below, else 0."""
    apart = value - level.level
    if abs(apart) <= _half(level, found, within, miss) or abs(math.expm1(apart)) <= floor:
        return 0
    return int(np.sign(apart))


def _expected(level: Segment, found: Course, within: float, miss: float) -> Estimate:
    half = _half(level, found, within, miss)
    return Estimate(*(finite_exp(level.level + side) for side in (0.0, -half, half)))
