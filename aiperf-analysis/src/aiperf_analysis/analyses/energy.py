"""Energy of a call with its interval, and what follows from it."""

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from aiperf_core.measurements import Energy, Estimate
from aiperf_core.report.result import Figure
from aiperf_core.stats.distributions import t_end
from aiperf_core.stats.intervals import Blocks

# The share of a figure from which the steps of the counter leave no more than a bound.
COARSE = 0.05
# Each end of the counted time lies anywhere within one step seen late, so two runs differ by the sum of four uniform
# errors. Its 97.5 % quantile is this many times the largest error of one run's end (Irwin-Hall, n = 4).
_STEPS = 1.1249


@frozen
class LogEnergy:
    """The energy of a call on a logarithmic scale.

    joules: of a call. half_width: half of the 95 % interval of its logarithm, for a repeated run.
    time: the part of it that is the time's, which figures with powers of the time also have.
    coarse: the error by steps of the counter relative to the figure, where that is above `COARSE`; else None.
    """

    joules: float
    half_width: float
    time: float
    coarse: float | None = None

    def figure(
        self, unit: str, factor: float = 1.0, *, times_s: float = 1.0, power: int = 0, inverse: bool = False
    ) -> Figure:
        """The factor x joules x time^power with its interval; its inverse if asked.

        times_s: the time of a call. Errors of the time count once for the energy and once for each further power.
        A figure whose counter was too coarse is a bound: it has one end alone.
        """
        value = self.joules * factor * times_s**power
        steps = math.sqrt(max(self.half_width**2 - self.time**2, 0.0))
        half = math.hypot(steps, (1 + power) * self.time)
        if inverse:
            value = 1 / value if value > 0 else math.inf
        if self.coarse is not None:
            reason = "the counter's steps are more than 5 % of the figure, so it is a bound"
            if inverse:
                return Figure(value=None, low=value * math.exp(-half), unit=unit, reason=reason)
            return Figure(value=None, high=value * math.exp(half), unit=unit, reason=reason)
        return Figure(value=value, low=value * math.exp(-half), high=value * math.exp(half), unit=unit)


def log_energy(energy: Energy, time: float, *, net: bool = False) -> LogEnergy | None:
    """The energy of a call, gross or net of the idle machine; None where nothing is left above the idle power.

    time: half of the interval of the logarithm of a call's time; see `time_error`.

    The errors of the time and of the counter's steps are independent and add in quadrature on a logarithmic scale.
    """
    joules = energy.net_joules_per_call if net else energy.joules_per_call
    # The counter's errors under load and when idle are independent; the record has their sum.
    idle = energy.net_resolution_j - energy.resolution_j
    resolution = math.hypot(energy.resolution_j, idle) if net else energy.resolution_j
    if joules <= 0:
        return None
    relative = resolution / joules
    steps = _STEPS * relative
    return LogEnergy(joules, math.hypot(time, steps), time, relative if relative > COARSE else None)


def mean_watts(energy: Energy) -> float:
    """The mean power while the calls ran."""
    return energy.joules_per_call * energy.calls / energy.seconds


def time_error(blocks: Blocks | None, shown: Estimate | None, rounds: int) -> float:
    """Half of the interval of the logarithm of the time of one process's calls, for a repeated run.

    The energy is measured in one process, and processes differ. Their spread is that of the medians of the rounds, each
    of a fresh process: t(R - 1) sqrt(2) sd. Of a single round the interval of the row's time stands for it; where the
    samples are gone, that interval widened by sqrt(R). Infinite where there is neither.
    """
    if blocks is not None and len(blocks.times):
        medians = [float(np.median(blocks.times[blocks.rounds == which])) for which in np.unique(blocks.rounds)]
        if len(medians) > 1:
            return t_end(len(medians) - 1) * math.sqrt(2) * float(np.std(np.log(medians), ddof=1))
    if shown is None or shown.low <= 0:
        return math.inf
    half = max(math.log(shown.high / shown.value), math.log(shown.value / shown.low))
    return half * math.sqrt(rounds if blocks is None else 1)


def rank_ranges(figures: Sequence[Figure]) -> list[tuple[int, int] | None]:
    """The best and the worst rank of each figure, the least first, as its interval allows; None for a bound.

    A figure is before another for certain where their intervals do not overlap.
    """
    kept = [figure for figure in figures if figure.value is not None]
    ranges: list[tuple[int, int] | None] = []
    for figure in figures:
        if figure.value is None or figure.low is None or figure.high is None:
            ranges.append(None)
            continue
        before = sum(other.high is not None and other.high < figure.low for other in kept)
        behind = sum(other.low is not None and other.low > figure.high for other in kept)
        ranges.append((before + 1, len(kept) - behind))
    return ranges
