"""Times over sizes as powers in pieces: log t is a chain of straight lines in log n, whose slopes are the exponents."""

from itertools import combinations, pairwise

import numpy as np
from attrs import frozen

from aiperf_analysis.models.curve import CONTRADICTS, Curve, aicc
from aiperf_analysis.models.draws import percentiles
from aiperf_core.measurements import Estimate
from aiperf_core.stats.draws import Floats

MOST_KNOTS = 3
LEAST_POINTS = 3


@frozen
class Piece:
    """A range of sizes, from `low` to `high`, and the exponent of the time in it."""

    low: float
    high: float
    exponent: Estimate
    points: int


@frozen(eq=False)
class Pieces:
    """The pieces in ascending order.

    logs: the logarithms of the fitted times at the sizes of the curve.
    worst: the largest deviation from a point, as a part of its time.
    contradicted: whether a point lies far beyond its interval and the floor from the fit.
    """

    pieces: list[Piece]
    logs: Floats
    worst: float
    contradicted: bool


def pieces(curve: Curve) -> Pieces:
    """The pieces of a curve of at least 3 points, with knots at measured sizes. AICc decides how many there are."""
    count = len(curve.at)
    inner = range(1, count - 1)
    best: tuple[float, tuple[int, ...]] | None = None
    for knots in range(MOST_KNOTS + 1):
        for chosen in combinations(inner, knots):
            line = _line(curve, chosen)
            score = aicc(curve.squares(curve.logs @ line.T), count, 2 + knots)
            if score is not None and (best is None or score < best[0]):
                best = score, chosen
    return _fitted(curve, best[1] if best else ())


def _columns(curve: Curve, knots: tuple[int, ...]) -> Floats:
    x = np.log(curve.at)
    hinges = [np.maximum(0.0, x - x[knot]) for knot in knots]
    return np.stack([np.ones_like(x), x, *hinges], axis=1)


def _line(curve: Curve, knots: tuple[int, ...]) -> Floats:
    """The matrix that makes fitted logarithms of measured ones."""
    found: Floats = _columns(curve, knots) @ _solver(curve, knots)
    return found


def _solver(curve: Curve, knots: tuple[int, ...]) -> Floats:
    weights = 1 / curve.spreads
    found: Floats = np.linalg.pinv(_columns(curve, knots) * weights[:, None]) * weights
    return found


def _fitted(curve: Curve, knots: tuple[int, ...]) -> Pieces:
    solver = _solver(curve, knots)
    slopes = np.cumsum((solver @ curve.logs)[1:])
    drawn = np.cumsum((curve.draws @ solver.T)[:, 1:], axis=1)
    ends = [0, *knots, len(curve.at) - 1]
    found = [
        Piece(
            float(curve.at[first]),
            float(curve.at[last]),
            percentiles(float(slopes[index]), drawn[:, index]),
            last - first + 1,
        )
        for index, (first, last) in enumerate(pairwise(ends))
    ]
    logs = _columns(curve, knots) @ (solver @ curve.logs)
    apart = logs - curve.logs
    contradicted = bool((np.abs(apart) > CONTRADICTS * curve.spreads).any())
    return Pieces(found, logs, float(np.abs(np.expm1(apart)).max()), contradicted)
