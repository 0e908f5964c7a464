"""Figures at sizes that were not measured, from measured ones.

Between two sizes, a figure that bends to one side in log-log lies between the straight line through both, and the
continued lines of their neighbours. Beyond the measured sizes the last exponent, the one before it, and a further
change as large as the last one span the range.
"""

import math
from collections.abc import Sequence

from attrs import frozen

from aiperf_analysis.models.parts import Refused
from aiperf_core.units import parameter

REACH = 2.0
LEAST = 3  # sizes for an answer beyond them


@frozen
class AtSize:
    """A range of values at a size, and the measured sizes that it follows from, by index."""

    low: float
    high: float
    used: tuple[int, ...]


def at_size(places: Sequence[float], values: Sequence[float], size: float, *, extrapolate: bool) -> AtSize:
    """The least and the largest value at a size. `places` ascend.

    Raises Refused beyond `REACH` times the range, unless told to `extrapolate`, and where the sizes are too few.
    """
    x, y = [math.log(one) for one in places], [math.log(one) for one in values]
    if size in places:
        index = list(places).index(size)
        return AtSize(values[index], values[index], (index,))
    if len(places) < 2:
        raise Refused(f"it was measured at {len(places)} size; a sweep is needed: --set NAME=VALUE,VALUE,VALUE")
    if places[0] < size < places[-1]:
        found, used = _between(x, y, math.log(size))
    else:
        found, used = _beyond(places, x, y, size, extrapolate=extrapolate)
    return AtSize(math.exp(min(found)), math.exp(max(found)), tuple(used))


def _line(x: Sequence[float], y: Sequence[float], first: int, at: float) -> float:
    """The line through a point and the next one, continued to `at`."""
    slope = (y[first + 1] - y[first]) / (x[first + 1] - x[first])
    return y[first] + slope * (at - x[first])


def _between(x: Sequence[float], y: Sequence[float], at: float) -> tuple[list[float], range]:
    left = max(index for index, one in enumerate(x) if one < at)
    first, last = max(left - 1, 0), min(left + 2, len(x) - 1)
    found = [_line(x, y, start, at) for start in range(first, last)]
    if len(found) == 1:
        # Without neighbours, only that the figure does not leave its ends.
        found += [y[left], y[left + 1]]
    return found, range(first, last + 1)


def _beyond(
    places: Sequence[float], x: Sequence[float], y: Sequence[float], size: float, *, extrapolate: bool
) -> tuple[list[float], range]:
    if len(places) < LEAST:
        raise Refused(f"beyond the measured sizes {LEAST} of them are needed; {len(places)} were measured")
    above = size > places[-1]
    outside = size / places[-1] if above else places[0] / size
    if outside > REACH and not extrapolate:
        raise Refused(
            f"it was measured from {parameter(places[0])} to {parameter(places[-1])}, and {parameter(size)} is more "
            f"than {REACH:g} times beyond; measure nearer, or add --extrapolate"
        )
    end, near, far = (-1, -2, -3) if above else (0, 1, 2)
    last = (y[end] - y[near]) / (x[end] - x[near])
    before = (y[near] - y[far]) / (x[near] - x[far])
    step = math.log(size) - x[end]
    # What the exponent may change further, each time that the size changes by as much as between the last two.
    further = (last - before) * max(1.0, abs(step) / abs(x[end] - x[near]))
    used = range(len(x) - LEAST, len(x)) if above else range(LEAST)
    return [y[end] + slope * step for slope in (before, last, last + further)], used


def largest_size(places: Sequence[float], values: Sequence[float], limit: float) -> float:
    """The size at which a growing figure meets a limit, by the line of the last sizes below it.

    Raises Refused where the figure does not grow, or exceeds the limit at the least size.
    """
    if len(places) < 2:
        raise Refused("its memory was measured at one size; a sweep is needed: --set NAME=VALUE,VALUE,VALUE")
    if values[0] > limit:
        raise Refused("its least measured size does not fit")
    inside = max(index for index, one in enumerate(values) if one <= limit)
    first = min(inside, len(places) - 2)
    rise = math.log(values[first + 1] / values[first]) / math.log(places[first + 1] / places[first])
    if rise <= 0:
        raise Refused("its memory does not grow with the size")
    return float(places[inside] * (limit / values[inside]) ** (1 / rise))
