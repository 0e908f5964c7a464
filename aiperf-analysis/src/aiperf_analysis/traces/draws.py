"""Intervals of means by the bootstrap over consecutive blocks, so that neighbours may depend on each other."""

import numpy as np
from numpy.typing import NDArray

from aiperf_core.report.result import Figure

DRAWS = 2000
BLOCKS = 64
LEAST = 6  # values, of fewer of which there is no interval
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64] | Floats


def drawn_means(values: Numbers, seed: int = 0) -> Floats:
    """The means of `DRAWS` resamples (Kunsch, Annals of Statistics 17, 1989, with blocks that do not overlap)."""
    blocks = np.array_split(np.asarray(values, dtype=np.float64), min(len(values), BLOCKS))
    sums = np.array([block.sum() for block in blocks])
    counts = np.array([len(block) for block in blocks], dtype=np.float64)
    weights = np.random.default_rng(seed).multinomial(len(blocks), [1 / len(blocks)] * len(blocks), DRAWS)
    return np.asarray((weights @ sums) / (weights @ counts), dtype=np.float64)


def ends(draws: Floats) -> tuple[float, float]:
    """The ends of the 95 % interval."""
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def mean(values: Numbers, scale: float, unit: str, reason: str = "no such event") -> Figure:
    """The mean times `scale` with its interval; without values a figure without a value.

    Fewer than `LEAST` values have a mean, but their interval is unbounded by the data: there is no value either.
    """
    if not len(values):
        return Figure(value=None, unit=unit, reason=reason)
    if len(values) < LEAST:
        return Figure(value=None, unit=unit, reason=f"an interval needs {LEAST} values; there are {len(values)}")
    low, high = ends(drawn_means(values))
    return Figure(value=float(np.mean(values)) * scale, low=low * scale, high=high * scale, unit=unit)


def share(hits: int, of: int) -> Figure:
    """A share in percent with the interval of Wilson (Journal of the American Statistical Association 22, 1927)."""
    if not of:
        return Figure(value=None, unit="%", reason="nothing to count")
    z, p = 1.959963984540054, hits / of
    middle, half = p + z * z / (2 * of), z * np.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    scale = (1 + z * z / of) / 100
    return Figure(
        value=100 * p, low=max(0.0, (middle - half) / scale), high=min(100.0, (middle + half) / scale), unit="%"
    )
