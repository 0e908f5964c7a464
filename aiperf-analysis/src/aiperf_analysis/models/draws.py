"""Draws of figures from their intervals, and intervals of what is computed from the draws.

A stored interval predicts a repeated run, so the variance of the run counts twice in it, and of a run in rounds it is
widened by Student's t at one degree of freedom less than the number of rounds. A parameter of a fit is no repeated run,
and its points have more degrees of freedom together than each alone. Draws have the standard error of the figure
itself; `widening` is the factor of Student's t for all points of a fit.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import t_quantile
from aiperf_core.stats.intervals import Blocks, median_interval

Floats = NDArray[np.float64]

DRAWS = 2000
NORMAL = 1.959963984540054  # the 97.5 % quantile
_RUNS = 2  # whose variances the interval of a time has: this run's, and that of a repeat


def widening(rounds: Sequence[int]) -> float:
    """The factor by which draws of a fit to points of these numbers of rounds are widened."""
    freedom = sum(one - 1 for one in rounds if one > 1)
    return t_quantile(0.975, freedom) / NORMAL if freedom else 1.0


def log_error(estimate: Estimate, rounds: int = 1) -> float:
    """The standard error of the logarithm of a time, from its interval for a repeated run. rounds: of the run."""
    if estimate.low <= 0:
        return math.inf
    quantile = t_quantile(0.975, rounds - 1) if rounds > 1 else NORMAL
    return math.log(estimate.high / estimate.low) / (2 * quantile * math.sqrt(_RUNS))


def log_draws(values: Sequence[float], errors: Floats, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Independent log-normal draws around the values, as logarithms: (draws, figures)."""
    rng = np.random.default_rng(seed)
    found: Floats = np.log(np.array(values)) + rng.standard_normal((draws, len(values))) * errors
    return found


def sample_draws(blocks: Blocks, draws: int = DRAWS, seed: int = 0) -> Floats | None:
    """Draws of the logarithm of a median from samples: (draws,). None where there are too few passes.

    Passes are drawn within their rounds. The draws are then spread to the variance that the interval of the time has,
    which counts differences between rounds and drift too.
    """
    whole = median_interval(blocks)
    if whole is None:
        return None
    rng = np.random.default_rng(seed)
    order = np.argsort(blocks.times, kind="stable")
    present, of_pass = np.unique(blocks.passes, return_inverse=True)
    rounds = blocks.rounds[np.searchsorted(blocks.passes, present)]
    weights = np.zeros((draws, len(present)), dtype=np.int64)
    for which in np.unique(rounds):
        (members,) = np.nonzero(rounds == which)
        chosen = rng.integers(0, len(members), size=(draws, len(members)))
        chosen += np.arange(draws)[:, None] * len(members)
        counts = np.bincount(chosen.ravel(), minlength=draws * len(members)).reshape(draws, len(members))
        weights[:, members] = counts
    times, passes = blocks.times[order], of_pass[order]
    found = np.empty(draws)
    step = max(1, 4_000_000 // len(times))
    for first in range(0, draws, step):
        summed = np.cumsum(weights[first : first + step][:, passes], axis=1)
        middle = (summed < summed[:, -1:] / 2).sum(axis=1)
        found[first : first + step] = np.log(times[middle])
    value, seen = math.log(whole.value), float(np.std(found))
    wanted = log_error(whole, len(np.unique(rounds)))
    if seen == 0:
        return value + rng.standard_normal(draws) * wanted
    return value + (found - float(np.mean(found))) * (wanted / seen)


def percentiles(value: float, draws: Floats) -> Estimate:
    """A figure with the 95 % interval of its draws. The interval contains the value."""
    low, high = (float(one) for one in np.quantile(draws, (0.025, 0.975)))
    return Estimate(value, min(low, value), max(high, value))


def probability(contrast: Estimate) -> float:
    """The two-sided probability of a contrast this far from 1, from the nearer side of its interval."""
    apart = abs(math.log(contrast.value))
    if apart == 0:
        return 1.0
    near = contrast.low if contrast.value > 1 else contrast.high
    width = abs(math.log(contrast.value / near)) if near > 0 else math.inf
    return math.erfc(NORMAL * apart / width / math.sqrt(2)) if width else 0.0
