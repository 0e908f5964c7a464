"""How the samples of a row are spread, in seconds a call by the clock of the target."""

import numpy as np
from attrs import frozen

from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.observations import clocks_of


@frozen
class Spread:
    """The samples of a row.

    least: the shortest.
    p95: 95 % of them are at most this long.
    deviation: the standard deviation; 0 of a single sample.
    """

    count: int
    least: float
    p95: float
    deviation: float


def spread_of(result: TargetResult, row: Row) -> Spread | None:
    """The spread of a row's samples, without the overhead of the clock; None without samples."""
    times = clocks_of(result, None).times(row.samples, result.clock)
    if not times:
        return None
    deviation = float(np.std(times, ddof=1)) if len(times) > 1 else 0.0
    return Spread(len(times), min(times), float(np.percentile(times, 95, method="higher")), deviation)
