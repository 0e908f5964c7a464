"""Percentiles and means of requests over time, with intervals by a block bootstrap.

Requests near each other in time meet the same queue, so that they are not independent. Blocks of neighbouring requests
are drawn instead of requests (Kunsch, Annals of Statistics 17, 1989). A block is long against the time over which
latencies stay alike: twice their integrated autocorrelation time, but at most a tenth of the requests.
"""

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
DRAWS = 1000
BEYOND = 10  # requests that must lie beyond a percentile
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_FEWEST_BLOCKS = 10
_NORMAL = 1.959964
_MOST_ELEMENTS = 8_000_000


@frozen(kw_only=True)
class Figure:
    """A figure with its 95 % interval. One without a value has the reason."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def correlation_time(values: Floats) -> float:
    """The integrated autocorrelation time in steps, 1 for independent values: 1 + 2 sum of autocorrelations.

    The sum ends where the sum of two neighbouring ones is not positive (Geyer, Statistical Science 7, 1992). Of ranks,
    so that a heavy tail has no effect.
    """
    count = len(values)
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    apart = ranks - ranks.mean()
    variance = float(apart @ apart)
    if variance == 0 or count < 8:
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(apart, size)
    auto = np.fft.irfft(spectrum * np.conj(spectrum), size)[: count // 2] / variance
    pairs = auto[: len(auto) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = pairs > 0
    last = len(pairs) if positive.all() else int(np.argmin(positive))
    return max(1.0, float(2 * pairs[:last].sum() - 1))


def block_length(values: Floats) -> int:
    """The number of requests of a block."""
    count = len(values)
    wanted = max(2 * correlation_time(values), count ** (1 / 3))
    return max(1, min(math.ceil(wanted), count // _FEWEST_BLOCKS or 1))


def percentiles(values: Floats, seed: int, censored: int = 0) -> dict[str, Figure]:
    """The percentiles of values in the order of time.

    censored: how many of the values are only known to be larger than all limits; they are `inf`.

    A percentile has at least `BEYOND` values beyond it, and lies below the censored ones.
    """
    count = len(values)
    wanted = {name: share for name, share in PERCENTILES.items() if count * (1 - share) >= BEYOND - 1e-9}
    found = {
        name: Figure(reason=f"needs {math.ceil(BEYOND / (1 - share) - 1e-9):,} requests, {count:,} were counted")
        for name, share in PERCENTILES.items()
        if name not in wanted
    }
    if wanted:
        weights = _weights(values, seed)
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        drawn = _weighted(ordered, order, weights, list(wanted.values()))
        for (name, share), draws in zip(wanted.items(), drawn.T, strict=True):
            value = float(ordered[_place(share, count)])
            if math.isinf(value):
                found[name] = Figure(reason=f"{censored:,} of {count:,} requests had no end within the timeout")
            else:
                found[name] = _interval(value, draws, weights.shape[1])
    return {name: found[name] for name in PERCENTILES}


def mean(values: Floats, seed: int, like: Floats | None = None, scale: float = 1.0) -> Figure:
    """The mean of values in the order of time, times `scale`. `like` gives the length of blocks instead of `values`."""
    if not len(values):
        return Figure(reason="no requests were counted")
    weights = _weights(values if like is None else like, seed)
    blocks = np.arange(len(values)) * weights.shape[1] // len(values)
    sums = np.bincount(blocks, values, minlength=weights.shape[1])
    counts = np.bincount(blocks, minlength=weights.shape[1])
    draws = (weights @ sums) / (weights @ counts) * scale
    return _interval(float(values.mean()) * scale, draws, weights.shape[1], logarithmic=False)


def _weights(values: Floats, seed: int) -> Floats:
    """How often each block was drawn: (draws, blocks). Blocks divide the requests evenly, in the order of time."""
    blocks = max(1, len(values) // block_length(values))
    rng = np.random.default_rng([seed, 5])
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=DRAWS).astype(np.float64)


def _place(share: float, count: int) -> int:
    """The place of a percentile among ordered values: the smallest that so large a share does not exceed."""
    return min(count - 1, max(0, math.ceil(share * count - 1e-9) - 1))


def _weighted(ordered: Floats, order: NDArray[np.int64], weights: Floats, shares: list[float]) -> Floats:
    """Percentiles of resampled values: (draws, shares)."""
    count, blocks = len(ordered), weights.shape[1]
    of_value = order * blocks // count
    found = np.empty((len(weights), len(shares)))
    step = max(1, _MOST_ELEMENTS // count)
    for first in range(0, len(weights), step):
        summed = np.cumsum(weights[first : first + step][:, of_value], axis=1)
        for column, share in enumerate(shares):
            reached = summed >= share * summed[:, -1:] - 1e-9
            found[first : first + step, column] = ordered[np.argmax(reached, axis=1)]
    return found


def _interval(value: float, draws: Floats, blocks: int, *, logarithmic: bool = True) -> Figure:
    """The percentile interval, widened for few blocks: Student's t, and the variance that n of n draws miss."""
    if blocks < 2:
        return Figure(value=value, reason="too few requests for an interval")
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(one) for one in np.quantile(draws, [tail, 1 - tail], method="nearest"))
    factor = student(blocks - 1) / _NORMAL * math.sqrt(blocks / (blocks - 1))
    if logarithmic and low > 0 and value > 0:
        low = value * (min(low, value) / value) ** factor
        high = value * (max(high, value) / value) ** factor
    else:
        low, high = value - factor * (value - min(low, value)), value + factor * (max(high, value) - value)
    if not math.isfinite(high):
        return Figure(value=value, low=low, reason="the high end lies beyond the timeout")
    return Figure(value=value, low=low, high=high)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5)."""
    if freedom == 1:
        return 12.7062
    z, v = _NORMAL, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


def share(hits: NDArray[np.bool_]) -> Figure:
    """The share of hits in the order of time: Wilson's interval with the number of independent requests.

    That number is the count divided by the autocorrelation time of the hits. Unlike a bootstrap, the interval keeps its
    width where all are hits.
    """
    count = len(hits)
    if not count:
        return Figure(reason="no requests were counted")
    value = float(hits.mean())
    worth = count / correlation_time(hits.astype(np.float64)) if 0 < value < 1 else count
    z2 = _NORMAL**2
    middle = (value + z2 / (2 * worth)) / (1 + z2 / worth)
    half = _NORMAL * math.sqrt(value * (1 - value) / worth + z2 / (4 * worth**2)) / (1 + z2 / worth)
    return Figure(value=value, low=max(0.0, min(value, middle - half)), high=min(1.0, max(value, middle + half)))
