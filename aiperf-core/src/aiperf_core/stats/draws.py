"""Draws of figures by the bootstrap, and the 95 % interval that draws give."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aiperf_core.stats.distributions import ENDS

Floats = NDArray[np.float64]

DRAWS = 2000
BLOCKS = 64


def ends(
    draws: NDArray[np.float64] | NDArray[np.int64], method: Literal["linear", "nearest"] = "linear"
) -> tuple[Floats, Floats]:
    """The ends of the 95 % interval of the draws, for each column."""
    low, high = np.quantile(draws, ENDS, axis=0, method=method)
    return low, high


def resamples(values: Sequence[float] | Floats, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Values drawn with replacement: (draws, values)."""
    return np.random.default_rng(seed).choice(np.asarray(values, np.float64), size=(draws, len(values)))


def log_draws(
    values: Sequence[float] | Floats, errors: Sequence[float] | Floats, rng: np.random.Generator, draws: int
) -> Floats:
    """Logarithms of independent log-normal draws around the values, with these standard errors: (draws, values)."""
    found: Floats = np.log(np.asarray(values, np.float64)) + rng.standard_normal((draws, len(values))) * errors
    return found


def block_means(values: NDArray[np.int64] | Floats, seed: int = 0) -> Floats:
    """Means of resamples of consecutive blocks, so that neighbours may depend on each other.

    The blocks do not overlap (Kunsch, Annals of Statistics 17, 1989).
    """
    blocks = np.array_split(np.asarray(values, dtype=np.float64), min(len(values), BLOCKS))
    sums = np.array([block.sum() for block in blocks])
    counts = np.array([len(block) for block in blocks], dtype=np.float64)
    weights = np.random.default_rng(seed).multinomial(len(blocks), [1 / len(blocks)] * len(blocks), DRAWS)
    return np.asarray((weights @ sums) / (weights @ counts), dtype=np.float64)
