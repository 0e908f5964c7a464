"""Percentiles and shares of requests over time, with intervals that allow for dependence.

Requests near each other in time meet the same queue, so that N requests tell less than N independent ones. Their worth
is N divided by the integrated autocorrelation time. With this number of independent requests, the interval of a
percentile lies between two of the ordered values, whose places follow from the binomial distribution: it holds for
every distribution of latencies, also where values tie. A high end that would lie beyond all values is not given.

`benchmarks/load_intervals.py` measures how often the intervals hold the true value.
"""

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core.stats.distributions import ENDS, NORMAL, share_interval
from aiperf_core.stats.draws import Floats

# With six decimals, as stored loads have it: their rechecks compare more digits than that.
ROUNDED_NORMAL = round(NORMAL, 6)
BEYOND = 10  # requests that must lie beyond a percentile
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
# The sum of measured autocorrelations ends too early on average, and few batches tell their variance badly. By this
# factor, intervals of short measurements hold as often as they should.
CAUTION = 1.4
_BATCHES = 20
_MOST_TERMS = 1 << 17  # of a sum of autocorrelations
_DEVIATIONS = 9  # of a binomial distribution, outside of which nothing lies


@frozen(kw_only=True)
class Figure:
    """A figure with its 95 % interval. One without a value, or without an end of the interval, has the reason."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def ranks(values: Floats) -> Floats:
    """The rank of each value, from 0; values that tie have the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return (ends - (count + 1) / 2)[place]


def correlation_time(values: Floats) -> float:
    """The integrated autocorrelation time in steps, 1 for independent values: 1 + 2 sum of autocorrelations.

    The sum ends where the sum of two neighbouring ones is not positive (Geyer, Statistical Science 7, 1992). Of very
    many values, those of neighbours are summed first.
    """
    apart = values - values.mean() if len(values) else values
    variance = float(apart @ apart)
    if variance == 0 or len(values) < 8:
        return 1.0
    step = -(-len(apart) // _MOST_TERMS)
    if step > 1:
        apart = apart[: len(apart) // step * step].reshape(-1, step).sum(axis=1)
    count = len(apart)
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(apart, size)
    auto = np.fft.irfft(spectrum * np.conj(spectrum), size)[: count // 2] / variance
    pairs = auto[: len(auto) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = pairs > 0
    last = len(pairs) if positive.all() else int(np.argmin(positive))
    return max(1.0, float(2 * pairs[:last].sum() - auto[0]))


def _batch_time(values: Floats) -> float:
    """The autocorrelation time by the variance of the means of batches."""
    length = len(values) // _BATCHES
    variance = float(values.var())
    if length == 0 or variance == 0:
        return 1.0
    means = values[: length * _BATCHES].reshape(_BATCHES, length).mean(axis=1)
    return length * float(means.var(ddof=1)) / variance


def independent(values: Floats, value: float) -> int:
    """The number of independent requests that tell as much of a percentile as these values in the order of time.

    value: the percentile. The autocorrelation time is the largest of those of the ranks, and of the requests beyond the
        percentile, by two methods.
    """
    beyond = (values > value).astype(np.float64)
    time = max(correlation_time(ranks(values)), correlation_time(beyond), _batch_time(beyond))
    return max(1, int(len(values) / (CAUTION * time)))


def percentiles(values: Floats, censored: int = 0) -> dict[str, Figure]:
    """The percentiles of values in the order of time.

    censored: how many of the values are only known to be larger than all limits; they are `inf`.

    A percentile has at least `BEYOND` values beyond it, and lies below the censored ones.
    """
    count = len(values)
    ordered = np.sort(values)
    found = {}
    for name, share in PERCENTILES.items():
        if count * (1 - share) < BEYOND - 1e-9:
            found[name] = Figure(reason=f"needs {requests_for(share):,} requests, {count:,} were counted")
        elif math.isinf(ordered[_place(share, count)]):
            found[name] = Figure(reason=f"{censored:,} of {count:,} requests had no end within the timeout")
        else:
            found[name] = _interval(values, ordered, share)
    return found


def requests_for(share: float) -> int:
    """The requests that a percentile needs, so that `BEYOND` lie beyond it."""
    return math.ceil(BEYOND / (1 - share) - 1e-9)


def _place(share: float, count: int) -> int:
    """The place of a percentile among ordered values: the smallest that so large a share does not exceed."""
    return min(count - 1, max(0, math.ceil(share * count - 1e-9) - 1))


def _binomial_ends(count: int, share: float) -> tuple[int, int]:
    """The smallest and largest number of hits among `count`, each a hit with this probability, within the tails."""
    mean, spread = count * share, math.sqrt(count * share * (1 - share))
    first = max(0, math.floor(mean - _DEVIATIONS * spread - _DEVIATIONS))
    last = min(count, math.ceil(mean + _DEVIATIONS * spread + _DEVIATIONS))
    hits = np.arange(first, last)
    start = math.lgamma(count + 1) - math.lgamma(first + 1) - math.lgamma(count - first + 1)
    start += first * math.log(share) + (count - first) * math.log1p(-share)
    # Each probability follows from the one before.
    growth = np.log((count - hits) / (hits + 1)) + math.log(share) - math.log1p(-share)
    summed = np.cumsum(np.exp(start + np.concatenate(([0.0], np.cumsum(growth)))))
    low, high = np.searchsorted(summed, ENDS, side="right")
    return first + int(low), min(last, first + int(high))


def _interval(values: Floats, ordered: Floats, share: float) -> Figure:
    """The percentile and its interval, from values in the order of time and by size."""
    count = len(values)
    value = float(ordered[_place(share, count)])
    worth = independent(values, value)
    # How many independent requests lie beyond the true percentile, at least and at most.
    least, most = _binomial_ends(worth, 1 - share)
    low = min(value, float(ordered[max(0, count - 1 - math.ceil(most / worth * count))]))
    if not least:
        beyond = worth * (1 - share)
        return Figure(value=value, low=low, reason=f"too few independent requests beyond it, about {beyond:.1f}")
    high = float(ordered[min(count - 1, count - math.floor(least / worth * count))])
    if math.isinf(high):
        return Figure(value=value, low=low, reason="the high end lies beyond the timeout")
    return Figure(value=value, low=low, high=max(high, value))


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
    low, high = share_interval(value, worth, ROUNDED_NORMAL)
    return Figure(value=value, low=min(value, low), high=max(value, high))
