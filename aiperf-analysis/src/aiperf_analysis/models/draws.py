"""Draws of figures from their intervals, and intervals of what is computed from the draws.

A stored interval predicts a repeated run, so the variance of the run counts twice in it, and of a run in rounds it is
widened by Student's t at one degree of freedom less than the number of rounds. A parameter of a fit is no repeated run,
and its points have more degrees of freedom together than each alone. Draws have the standard error of the figure
itself; `widening` is the factor of Student's t for all points of a fit.
"""

import math
from collections.abc import Sequence

import numpy as np

from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import NORMAL, t_end
from aiperf_core.stats.draws import DRAWS, Floats, ends
from aiperf_core.stats.intervals import Blocks, median_interval, resampled_medians

_RUNS = 2  # whose variances the interval of a time has: this run's, and that of a repeat


def widening(rounds: Sequence[int]) -> float:
    """The factor by which draws of a fit to points of these numbers of rounds are widened."""
    freedom = sum(one - 1 for one in rounds if one > 1)
    return t_end(freedom) / NORMAL if freedom else 1.0


def log_error(estimate: Estimate, rounds: int = 1) -> float:
    """The standard error of the logarithm of a time, from its interval for a repeated run. rounds: of the run."""
    if estimate.low <= 0:
        return math.inf
    quantile = t_end(rounds - 1) if rounds > 1 else NORMAL
    return math.log(estimate.high / estimate.low) / (2 * quantile * math.sqrt(_RUNS))


def sample_draws(blocks: Blocks, draws: int = DRAWS, seed: int = 0) -> Floats | None:
    """Draws of the logarithm of a median from samples: (draws,). None where there are too few passes.

    Passes are drawn within their rounds. The draws are then spread to the variance that the interval of the time has,
    which counts differences between rounds and drift too.
    """
    whole = median_interval(blocks)
    if whole is None:
        return None
    rng = np.random.default_rng(seed)
    found = np.log(resampled_medians(rng, blocks, draws))
    value, seen = math.log(whole.value), float(np.std(found))
    wanted = log_error(whole, len(np.unique(blocks.rounds)))
    if seen == 0:
        return value + rng.standard_normal(draws) * wanted
    return value + (found - float(np.mean(found))) * (wanted / seen)


def percentiles(value: float, draws: Floats) -> Estimate:
    """A figure with the 95 % interval of its draws. The interval contains the value."""
    low, high = (float(end) for end in ends(draws))
    return Estimate(value, min(low, value), max(high, value))


def probability(contrast: Estimate) -> float:
    """The two-sided probability of a contrast this far from 1, from the nearer side of its interval."""
    apart = abs(math.log(contrast.value))
    if apart == 0:
        return 1.0
    near = contrast.low if contrast.value > 1 else contrast.high
    width = abs(math.log(contrast.value / near)) if near > 0 else math.inf
    return math.erfc(NORMAL * apart / width / math.sqrt(2)) if width else 0.0
