"""The samples of a row as pictures need them: times of a call, quantiles, a density, the medians of blocks.

Figures of a report come from the results, never from here: this only shows what they were computed from.
"""

from typing import TYPE_CHECKING

import attrs
import numpy as np

from aiperf_core.results.models import Row, TargetResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fewer than these have no shape to show.
ENOUGH = 8
# What is beyond is no time of a call, and no scale could hold it.
SHORTEST_S, LONGEST_S = 1e-15, 1e9
MOST_BINS, FEWEST_BINS = 72, 12
MOST_POINTS = 120  # of a course over time; more blocks are put together


@attrs.frozen
class Taken:
    """The samples of one row by its target's clock: seconds a call, with the round and the block of each."""

    row: Row
    times: "NDArray[np.float64]"
    rounds: "NDArray[np.int64]"
    blocks: "NDArray[np.int64]"
    throttled: "NDArray[np.bool_]"
    median: float  # of all samples

    def quantiles(self, *shares: float) -> list[float]:
        """Quantiles of all samples, in seconds."""
        return [float(one) for one in np.quantile(self.times, shares)]


def taken(result: TargetResult) -> list[Taken]:
    """The rows of a result that have samples enough, in the order of its table."""
    rows = [_taken(result, row) for row in result.rows]
    return [one for one in rows if one is not None]


def _taken(result: TargetResult, row: Row) -> Taken | None:
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
    return Taken(row, times[keep], rounds[keep], blocks[keep], throttled[keep] > 0, float(np.median(times[keep])))


def density(one: Taken, low: float, high: float) -> list[float]:
    """How thick the samples lie between two deviations from their median (shares), from 0 to 1 at the thickest.

    Those beyond are in no bin. A count a bin, smoothed over three: enough to see a second mode, too little to invent one.
    """
    bins = min(MOST_BINS, max(FEWEST_BINS, int(2 * len(one.times) ** 0.5)))
    counts, _ = np.histogram(one.times / one.median - 1, bins=bins, range=(low, high))
    smooth = np.convolve(counts, (0.25, 0.5, 0.25), mode="same")
    most = smooth.max()
    return [float(share) for share in smooth / most] if most else []


def beyond(one: Taken, low: float, high: float) -> int:
    """How many samples deviate by more."""
    deviations = one.times / one.median - 1
    return int(np.count_nonzero((deviations < low) | (deviations > high)))


def rounds(one: Taken) -> list[list[float]]:
    """The quartiles of each round, as deviations from the median of all: low, middle, high."""
    deviations = one.times / one.median - 1
    return [
        [float(share) for share in np.quantile(deviations[one.rounds == number], (0.25, 0.5, 0.75))]
        for number in np.unique(one.rounds)
    ]


@attrs.frozen
class Point:
    """A block, or several in a row: the number of the first, its round, the deviation of its median, clocks held down."""

    block: int
    round: int
    deviation: float
    throttled: bool


def course(one: Taken) -> list[Point]:
    """The medians of a row's blocks in the order taken, relative to the median of all."""
    blocks, index = np.unique(one.blocks, return_inverse=True)
    points = index // -(-len(blocks) // MOST_POINTS)
    order = np.lexsort((one.times, points))
    counts = np.bincount(points)
    starts = np.cumsum(counts) - counts
    middles = (one.times[order[starts + (counts - 1) // 2]] + one.times[order[starts + counts // 2]]) / 2
    held = np.bincount(points, weights=one.throttled) > 0
    firsts = np.unique(points, return_index=True)[1]
    return [
        Point(int(one.blocks[first]), int(one.rounds[first]), float(middle / one.median - 1), bool(throttled))
        for first, middle, throttled in zip(firsts, middles, held, strict=True)
    ]
