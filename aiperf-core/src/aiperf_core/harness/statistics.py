"""Medians, ratios of medians, their intervals, and what may be said of them.

Samples taken close together share what the machine was doing at that time, so they are not independent; blocks are. The
bootstrap therefore draws passes first (a pass is one block of every implementation, taken within moments of each other),
the same ones for both sides of a ratio, then samples within each block (Davison and Hinkley, Bootstrap Methods and their
Application, 1997, section 3.8). With few passes a percentile interval is too narrow; it is widened by the ratio of
Student's t to the normal quantile and by sqrt(n / (n - 1)), as for a mean of n values.
"""

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core.results.models import Estimate, Verdict

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
DRAWS = 2000
# A resampled array larger than this is not built; fewer draws are made instead.
_MAX_ELEMENTS = 40_000_000
_MIN_DRAWS = 400
_NORMAL = 1.959963984540054
# Fewer passes than this allow no statement about their spread.
MIN_PASSES = 3


@frozen
class Blocks:
    """The times of one implementation, in seconds, with the pass that each sample belongs to (non-decreasing)."""

    times: Floats
    passes: NDArray[np.int64]

    @staticmethod
    def of(times: list[float], passes: list[int]) -> "Blocks":
        """Blocks from two lists of one length."""
        return Blocks(np.asarray(times, dtype=np.float64), np.asarray(passes, dtype=np.int64))

    @property
    def present(self) -> NDArray[np.int64]:
        """The passes with at least one sample."""
        return np.unique(self.passes)


def median_interval(blocks: Blocks, seed: int = 0) -> Estimate | None:
    """The median with its interval, or None where there are fewer than `MIN_PASSES` passes."""
    present = blocks.present
    if len(present) < MIN_PASSES:
        return None
    rng = np.random.default_rng(seed)
    draws = _draw_passes(rng, len(present), _draws_for(len(blocks.times)))
    return _widened(float(np.median(blocks.times)), _resampled_medians(rng, blocks, present, draws), len(present))


def ratio_interval(top: Blocks, bottom: Blocks, seed: int = 0) -> Estimate | None:
    """`median(top) / median(bottom)` with its interval, over the passes that both have; None with too few of them."""
    common = np.intersect1d(top.present, bottom.present)
    if len(common) < MIN_PASSES:
        return None
    rng = np.random.default_rng(seed)
    top, bottom = _only(top, common), _only(bottom, common)
    draws = _draw_passes(rng, len(common), _draws_for(max(len(top.times), len(bottom.times))))
    ratios = _resampled_medians(rng, top, common, draws) / _resampled_medians(rng, bottom, common, draws)
    return _widened(float(np.median(top.times) / np.median(bottom.times)), ratios, len(common))


def half_width(estimate: Estimate) -> float:
    """Half the interval's width relative to the value."""
    return (estimate.high - estimate.low) / (2 * estimate.value)


def verdict(speedup: Estimate, floor: float) -> Verdict:
    """What an interval of the speedup allows to say, given the smallest difference that matters in practice."""
    if speedup.low > 1 + floor:
        return Verdict.FASTER
    if speedup.high < 1 - floor:
        return Verdict.SLOWER
    if speedup.low >= 1 - floor and speedup.high <= 1 + floor:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE


def _only(blocks: Blocks, passes: NDArray[np.int64]) -> Blocks:
    keep = np.isin(blocks.passes, passes)
    return Blocks(blocks.times[keep], blocks.passes[keep])


def _draws_for(samples: int) -> int:
    return int(np.clip(_MAX_ELEMENTS // max(samples, 1), _MIN_DRAWS, DRAWS))


def _draw_passes(rng: np.random.Generator, passes: int, draws: int) -> NDArray[np.int64]:
    return rng.integers(0, passes, size=(draws, passes))


def _resampled_medians(
    rng: np.random.Generator, blocks: Blocks, present: NDArray[np.int64], draws: NDArray[np.int64]
) -> Floats:
    """Medians of resampled data: the drawn passes, and within each as many samples as a block usually has."""
    starts = np.searchsorted(blocks.passes, present, side="left")
    lengths = np.searchsorted(blocks.passes, present, side="right") - starts
    per_block = max(1, int(np.median(lengths)))
    medians = np.empty(len(draws))
    step = max(1, _MAX_ELEMENTS // 8 // (draws.shape[1] * per_block))
    for first in range(0, len(draws), step):
        chosen = draws[first : first + step, :, None]
        within = rng.random((*chosen.shape[:2], per_block)) * lengths[chosen]
        index = starts[chosen] + within.astype(np.int64)
        medians[first : first + step] = np.median(blocks.times[index].reshape(len(chosen), -1), axis=1)
    return medians


def _widened(value: float, resampled: Floats, passes: int) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(one) for one in np.quantile(resampled, [tail, 1 - tail]))
    factor = _student(passes - 1) / _NORMAL * math.sqrt(passes / (passes - 1))
    # Times and ratios are positive: widened on a logarithmic scale, an interval stays so. The resampled one contains
    # the value but for the discreteness of medians.
    down, up = min(0.0, math.log(low / value)), max(0.0, math.log(high / value))
    return Estimate(value, value * math.exp(factor * down), value * math.exp(factor * up))


def _student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5)."""
    z, v = _NORMAL, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / v + second / v**2 + third / v**3 + fourth / v**4
