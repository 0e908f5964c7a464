"""The samples of a row as pictures need them: times of a call, quantiles, a density, the medians of blocks.

The figures of a report come from the results, never from here.
"""

from typing import TYPE_CHECKING

import attrs
import numpy as np

from aiperf_core.results.models import Row, TargetResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENOUGH = 8  # samples; fewer show no shape
# A value beyond these limits is not the time of a call, and no scale can hold it.
SHORTEST_S, LONGEST_S = 1e-15, 1e9
MOST_BINS, FEWEST_BINS = 72, 12
MOST_POINTS = 120  # of a course; more blocks are put together


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
    """The rows of a result that have enough samples, in the order of its table."""
    return [found for row in result.rows if (found := _of_row(result, row)) is not None]


def _of_row(result: TargetResult, row: Row) -> RowSamples | None:
    samples = row.samples
    column = np.asarray(samples.device_s if result.clock == "device" else samples.wall_s, dtype=np.float64)
    columns = (samples.calls, samples.round, samples.block, samples.throttled)
    if any(len(one) != len(column) for one in columns) or not len(column):
        return None
    calls, rounds, blocks, throttled = (np.asarray(one, dtype=np.int64) for one in columns)
    times = (column - (result.clock_overhead_s or 0.0)) / np.maximum(calls, 1)
    keep = (times > SHORTEST_S) & (times < LONGEST_S)
    if np.count_nonzero(keep) < ENOUGH:
        return None
    return RowSamples(row, times[keep], rounds[keep], blocks[keep], throttled[keep] > 0, float(np.median(times[keep])))


def density(row: RowSamples, low: float, high: float) -> list[float]:
    """The density of the samples between two deviations from their median (shares); 1 where it is highest.

    Counts of bins, smoothed over three bins: enough to see a second mode, too little to invent one.
    """
    bins = min(MOST_BINS, max(FEWEST_BINS, int(2 * len(row.times) ** 0.5)))
    counts, _ = np.histogram(row.times / row.median - 1, bins=bins, range=(low, high))
    smooth = np.convolve(counts, (0.25, 0.5, 0.25), mode="same")
    most = smooth.max()
    return [float(share) for share in smooth / most] if most else []


def beyond(row: RowSamples, low: float, high: float) -> int:
    """The number of samples outside these two deviations."""
    deviations = row.times / row.median - 1
    return int(np.count_nonzero((deviations < low) | (deviations > high)))


def rounds(row: RowSamples) -> list[list[float]]:
    """The quartiles of each round, as deviations from the median of all samples."""
    deviations = row.times / row.median - 1
    return [
        [float(share) for share in np.quantile(deviations[row.rounds == number], (0.25, 0.5, 0.75))]
        for number in np.unique(row.rounds)
    ]


@attrs.frozen
class Point:
    """A block, or several blocks in a row. `block` and `round` are of the first; `deviation` is of the median."""

    block: int
    round: int
    deviation: float
    throttled: bool


def course(row: RowSamples) -> list[Point]:
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
