"""The samples of a row as pictures need them: times of a call, quantiles, shares, the medians of blocks.

The figures of a report come from the results, never from here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from aiperf_core.results.models import Row, TargetResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAR_OUT = 3.0  # interquartile ranges beyond a quartile, the outer fences of Tukey
FLATTENED = 3.0  # how many times wider a range may be for the sake of values that are far out
LEAST_REACH = 0.002  # share of the median to either side, or the finest noise would fill a strip
# A value beyond these limits is not the time of a call, and no scale can hold it.
SHORTEST_S, LONGEST_S = 1e-15, 1e9
MOST_SHARES = 60  # points of a distribution
MOST_POINTS = 120  # of a time series; more blocks are put together


@attrs.frozen
class RowSamples:
    """The samples of one row by the clock of its target.

    times: seconds a call.
    rounds, blocks: the number of the process round and of the block of each sample.
    throttled: whether clocks were held down.
    median: of all samples.
    """

    row: Row
    times: "NDArray[np.float64]"
    rounds: "NDArray[np.int64]"
    blocks: "NDArray[np.int64]"
    throttled: "NDArray[np.bool_]"
    median: float

    def quantiles(self, *shares: float) -> list[float]:
        """Quantiles of all samples, in seconds."""
        return [float(one) for one in np.quantile(self.times, shares)]


def of_rows(result: TargetResult) -> list[RowSamples]:
    """The rows of a result that have samples, in the order of its table."""
    return [found for row in result.rows if (found := _of_row(result, row)) is not None]


def _of_row(result: TargetResult, row: Row) -> RowSamples | None:
    samples = row.samples
    column = np.asarray(samples.by(result.clock), dtype=np.float64)
    columns = (samples.calls, samples.round, samples.block, samples.throttled)
    if any(len(one) != len(column) for one in columns) or not len(column):
        return None
    calls, rounds, blocks, throttled = (np.asarray(one, dtype=np.int64) for one in columns)
    times = (column - (result.clock_overhead_s or 0.0)) / np.maximum(calls, 1)
    keep = (times > SHORTEST_S) & (times < LONGEST_S)
    if not keep.any():
        return None
    return RowSamples(row, times[keep], rounds[keep], blocks[keep], throttled[keep] > 0, float(np.median(times[keep])))


def span(values: Sequence[float], least: float) -> tuple[float, float]:
    """The range in which values are drawn: at least `least` to either side of their median.

    Values far out are left outside where they would flatten the rest.
    """
    p25, p50, p75 = np.quantile(values, (0.25, 0.5, 0.75))
    fence = FAR_OUT * (p75 - p25)
    inner = [value for value in values if p25 - fence <= value <= p75 + fence]
    low, high = min([*inner, p50 - least]), max([*inner, p50 + least])
    bottom, top = min([*values, low]), max([*values, high])
    return (bottom, top) if top - bottom <= FLATTENED * (high - low) else (low, high)


def strip_range(row: RowSamples) -> tuple[float, float]:
    """The range of a strip of a row's samples, in seconds."""
    low, high = span(row.times.tolist(), LEAST_REACH * row.median)
    return float(low), float(high)


def beyond(row: RowSamples, low: float, high: float) -> int:
    """The number of samples outside these two times."""
    return int(np.count_nonzero((row.times < low) | (row.times > high)))


def shares(times: "NDArray[np.float64]") -> list[tuple[float, float]]:
    """The distribution of times: for each of at most `MOST_SHARES` of them the percentage that is not longer."""
    ordered = np.sort(times)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_SHARES)).astype(int))
    steps = [(float(ordered[place]), 100.0 * (int(place) + 1) / len(ordered)) for place in places]
    return [(steps[0][0], 0.0), *steps]


def shares_of_rounds(row: RowSamples) -> list[list[tuple[float, float]]]:
    """The distribution of each round."""
    return [shares(row.times[row.rounds == number]) for number in np.unique(row.rounds)]


@attrs.frozen
class Point:
    """A block, or several blocks in a row. `block` and `round` are of the first; `deviation` is of the median."""

    block: int
    round: int
    deviation: float
    throttled: bool


def series(row: RowSamples) -> list[Point]:
    """The medians of a row's blocks in the order taken, relative to the median of all."""
    blocks, index = np.unique(row.blocks, return_inverse=True)
    points = index // -(-len(blocks) // MOST_POINTS)
    order = np.lexsort((row.times, points))
    counts = np.bincount(points)
    starts = np.cumsum(counts) - counts
    middles = (row.times[order[starts + (counts - 1) // 2]] + row.times[order[starts + counts // 2]]) / 2
    held = np.bincount(points, weights=row.throttled) > 0
    firsts = np.unique(points, return_index=True)[1]
    return [
        Point(int(row.blocks[first]), int(row.rounds[first]), float(middle / row.median - 1), bool(throttled))
        for first, middle, throttled in zip(firsts, middles, held, strict=True)
    ]
