"""The noise of a series: its variance between runs, its weights, and how far neighbouring runs are alike.

All figures are on a logarithmic scale, so that a difference of 0.01 is about 1 %.
"""

import math
from collections.abc import Sequence

import numpy as np

from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import NORMAL, NORMAL_OF_MAD
from aiperf_core.stats.draws import Floats

# Half the width of an interval in standard errors: it holds 95 % of repeated runs, whose error adds to this run's.
_HALF_WIDTH = NORMAL * math.sqrt(2)
# The least standard deviation of a run. It keeps the weights of counted figures finite.
LEAST_SD = 1e-4
# The weight of a run relative to the usual one is at most this: a lucky narrow interval must not place a level alone.
_MOST_WEIGHT = 4.0
# Neighbours count as alike from this autocorrelation on, and in short series from what chance makes in 1 of 15.
ALIKE, _BY_CHANCE = 0.2, 1.5
_MOST_ALIKE = 0.8


def logs(figures: Sequence[Estimate]) -> tuple[Floats, Floats]:
    """The logarithms of figures, and the variances of their errors, by the widths of their intervals.

    An interval of a bundle holds a repeated run with 95 %, so the variance of a run counts twice in it.
    """
    values = np.log([one.value for one in figures])
    widths = np.log([one.high for one in figures]) - np.log([one.low for one in figures])
    return values, (widths / (2 * _HALF_WIDTH)) ** 2


def variances(values: Floats, within: Floats) -> Floats:
    """The variance of each run: that between runs, and its own.

    The variance between runs comes from the median absolute deviation of successive differences, less the mean of the
    variances within runs. A step changes only one of the differences. No run has more than four times the usual weight.
    """
    spread: Floats = between(values, within) + within
    return np.maximum(spread, max(LEAST_SD**2, float(np.median(spread)) / _MOST_WEIGHT))


def between(values: Floats, within: Floats) -> float:
    """The variance between runs, without that within runs; 0 where the differences show none."""
    if len(values) < 3:
        return 0.0
    differences = np.diff(values)
    deviation = NORMAL_OF_MAD * float(np.median(np.abs(differences - np.median(differences))))
    return max(0.0, deviation**2 / 2 - float(np.mean(within)))


def alikeness(residuals: Floats, levels: int = 1) -> float:
    """The autocorrelation of residuals around fitted levels; 0 where it is small enough for independent runs."""
    apart, runs = residuals - residuals.mean(), len(residuals)
    squares = float(apart @ apart)
    alike = float(apart[1:] @ apart[:-1]) / squares if runs > 3 and squares > 0 else 0.0
    if alike <= max(ALIKE, _BY_CHANCE / math.sqrt(max(runs, 1))):
        return 0.0
    # Corrected for the bias of short parts (Marriott and Pope, Biometrika 41, 1954).
    return min(alike + (1 + 3 * alike) * levels / runs, _MOST_ALIKE)


def long_run(alike: float) -> float:
    """The variance of a mean of many runs, relative to that of independent ones, by a first-order autoregression."""
    return (1 + alike) / (1 - alike)


def finite_exp(value: float) -> float:
    """The exponential, at most about 1e304: the end of an interval that few runs of a wild series support."""
    return math.exp(min(value, 700.0))
