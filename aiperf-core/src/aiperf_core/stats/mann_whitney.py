"""One-sided tests that do not depend on how far values lie apart.

The rank test of two samples (Mann and Whitney, Annals of Mathematical Statistics 18, 1947), and the sign test of pairs
(Dixon and Mood, Journal of the American Statistical Association 41, 1946).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

# Above this number of pairs the normal distribution takes the place of the exact one. It overestimates small chances.
_MOST_PAIRS = 1024


def chance_of_excess(values: Sequence[float], others: Sequence[float], shift: float = 0.0) -> float:
    """The chance that values which differ from `others` in nothing exceed them, shifted upwards, at least as clearly.

    Values and shift have one unit. Ties count against an excess. 1.0 where a side has no values.
    """
    pairs = len(values) * len(others)
    if not pairs:
        return 1.0
    ordered = np.sort(np.asarray(others, float)) + shift
    exceeded = int(np.searchsorted(ordered, np.asarray(values, float), side="left").sum())
    if pairs <= _MOST_PAIRS:
        return _tails(len(values), len(others))[exceeded]
    deviation = math.sqrt(pairs * (len(values) + len(others) + 1) / 12)
    return 1.0 - NormalDist().cdf((exceeded - 0.5 - pairs / 2) / deviation)


def chance_of_signs(positive: int, pairs: int) -> float:
    """The chance that at least `positive` of the differences of `pairs` are positive where either sign is as likely."""
    if pairs <= _MOST_PAIRS:
        return sum(math.comb(pairs, more) for more in range(positive, pairs + 1)) / (1 << pairs)
    return 1.0 - NormalDist().cdf((positive - 0.5 - pairs / 2) / math.sqrt(pairs / 4))


@lru_cache(maxsize=64)
def _tails(first: int, second: int) -> list[float]:
    """The chance of a number of exceeded pairs or more, by that number.

    The numbers of orders with 0, 1, ... exceeded pairs are the coefficients of a Gaussian binomial.
    """
    orders = [1] + [0] * (first * second)
    for index in range(1, first + 1):
        for place in range(first * second, second + index - 1, -1):
            orders[place] -= orders[place - second - index]
        for place in range(index, first * second + 1):
            orders[place] += orders[place - index]
    whole, tails = math.comb(first + second, first), [0] * (len(orders) + 1)
    for place in range(len(orders) - 1, -1, -1):
        tails[place] = tails[place + 1] + orders[place]
    return [one / whole for one in tails[:-1]]
