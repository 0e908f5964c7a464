"""Round values for the labels of an axis."""

import math
from collections.abc import Iterable

STEPS = (1, 2, 5)


def linear(low: float, high: float, most: int) -> list[float]:
    """Round values from `low` to `high`, at most `most` of them where that is possible, in equal steps."""
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((step * power for step in (*STEPS, 10) if step * power >= rough * 0.999), 10 * power)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def logarithmic(low: float, high: float, most: int) -> list[float]:
    """Powers of ten, with their parts where there is room; equal steps where the range is too short for these."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, (1, 3), (1,)):
        found = _within(low, high, (step * 10.0**power for power in decades for step in steps))
        if 2 <= len(found) <= most:
            return found
    every = max(1, math.ceil(len(decades) / most))
    found = _within(low, high, (10.0**power for power in decades[::every]))
    return found if len(found) > 1 else linear(low, high, most) or [low]


def _within(low: float, high: float, values: Iterable[float]) -> list[float]:
    return [value for value in values if low * 0.999 <= value <= high * 1.001]
