"""Intervals of means by the bootstrap over consecutive blocks, so that neighbours may depend on each other."""

import numpy as np
from numpy.typing import NDArray

from aiperf_core.report.result import Figure
from aiperf_core.stats.distributions import share_interval
from aiperf_core.stats.draws import Floats, block_means, ends

LEAST = 6  # values, of fewer of which there is no interval
Numbers = NDArray[np.int64] | Floats


def mean(values: Numbers, scale: float, unit: str, reason: str = "no such event") -> Figure:
    """The mean times `scale` with its interval; without values a figure without a value.

    Fewer than `LEAST` values have a mean, but their interval is unbounded by the data: there is no value either.
    """
    if not len(values):
        return Figure(value=None, unit=unit, reason=reason)
    if len(values) < LEAST:
        return Figure(value=None, unit=unit, reason=f"an interval needs {LEAST} values; there are {len(values)}")
    low, high = (float(end) for end in ends(block_means(values)))
    return Figure(value=float(np.mean(values)) * scale, low=low * scale, high=high * scale, unit=unit)


def share(hits: int, of: int) -> Figure:
    """A share in percent with its interval."""
    if not of:
        return Figure(value=None, unit="%", reason="nothing to count")
    low, high = share_interval(hits / of, of)
    return Figure(value=100 * hits / of, low=100 * low, high=100 * high, unit="%")
