"""Figures at sizes that were not measured, from measured ones.

Between two sizes, a figure that bends to one side in log-log lies between the straight line through both, and the
continued lines of their neighbours. Beyond the measured sizes the last exponent, the one before it, and a further
change as large as the last one span the range.
"""

import math
from collections.abc import Sequence

from aiperf_analysis.models.parts import Refused

REACH = 2.0
LEAST = 3  # sizes for an answer beyond them


def at_size(places: Sequence[float], values: Sequence[float], size: float, *, extrapolate: bool) -> tuple[float, float]:
    """The least and the largest value at a size. `places` ascend.

    Raises Refused beyond `REACH` times the range, unless told to `extrapolate`, and where the sizes are too few.
    """
    x, y = [math.log(one) for one in places], [math.log(one) for one in values]
    at = math.log(size)
    if size in places:
        value = values[list(places).index(size)]
        return value, value
    if len(places) < 2:
        raise Refused(f"it was measured at {len(places)} size; a sweep is needed: --set NAME=VALUE,VALUE,VALUE")
    if places[0] < size < places[-1]:
        found = _between(x, y, at)
    else:
        found = _beyond(places, x, y, size, extrapolate=extrapolate)
    return math.exp(min(found)), math.exp(max(found))


def _line(x: Sequence[float], y: Sequence[float], first: int, at: float) -> float:
    """The line through a point and the next one, continued to `at`."""
    slope = (y[first + 1] - y[first]) / (x[first + 1] - x[first])
    return y[first] + slope * (at - x[first])


def _between(x: Sequence[float], y: Sequence[float], at: float) -> list[float]:
    left = max(index for index, one in enumerate(x) if one < at)
    found = [_line(x, y, left, at)]
    if left > 0:
        found.append(_line(x, y, left - 1, at))
    if left + 2 < len(x):
        found.append(_line(x, y, left + 1, at))
    if len(found) == 1:
        # Without neighbours, only that the figure does not leave its ends.
        found += [y[left], y[left + 1]]
    return found


def _beyond(
    places: Sequence[float], x: Sequence[float], y: Sequence[float], size: float, *, extrapolate: bool
) -> list[float]:
    if len(places) < LEAST:
        raise Refused(f"beyond the measured sizes {LEAST} of them are needed; {len(places)} were measured")
    outside = size / places[-1] if size > places[-1] else places[0] / size
    if outside > REACH and not extrapolate:
        raise Refused(
            f"it was measured from {places[0]:g} to {places[-1]:g}, and {size:g} is more than {REACH:g} times beyond; "
            "measure nearer, or add --extrapolate"
        )
    end, near, far = (-1, -2, -3) if size > places[-1] else (0, 1, 2)
    last = (y[end] - y[near]) / (x[end] - x[near])
    before = (y[near] - y[far]) / (x[near] - x[far])
    # What the exponent may change further, each time that the size changes by as much as between the last two.
    further = (last - before) * max(1.0, abs(math.log(size) - x[end]) / abs(x[end] - x[near]))
    step = math.log(size) - x[end]
    return [y[end] + slope * step for slope in (before, last, last + further)]


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
