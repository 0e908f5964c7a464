"""Laws of scaling over ranks or processors N, fitted to times.

| law | strong scaling, t(N) of a fixed problem | source |
| --- | --- | --- |
| linear | t1 / N | |
| Amdahl | t1 (s + (1 - s) / N) | Amdahl, AFIPS 1967 |
| USL | t1 (1 + sigma (N - 1) + kappa N (N - 1)) / N | Gunther, Guerrilla Capacity Planning, 2007 |

Of weak scaling, with fixed work a rank, linear is t1, USL is N times the above, and Gustafson's law (Communications of
the ACM 31, 1988) takes Amdahl's place: N t1 / t(N) = N - s (N - 1). All are linear in their coefficients, which are not
negative: weighted least squares over the cases of which coefficients are zero, without a solver.
"""

import math
from collections.abc import Callable
from itertools import chain, combinations

import numpy as np
from attrs import frozen

from aiperf_analysis.models.curve import CONTRADICTS, NEAR, Curve, aicc
from aiperf_analysis.models.draws import percentiles
from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import ENDS
from aiperf_core.stats.draws import Floats

LINEAR, AMDAHL, GUSTAFSON, USL = "linear", "Amdahl", "Gustafson", "USL"
# Least number of different N for a law.
LEAST = {LINEAR: 2, AMDAHL: 3, GUSTAFSON: 3, USL: 5}
# Share of draws with a positive kappa from which a peak is given.
_CERTAIN = ENDS[1]


@frozen(eq=False)
class LawFit:
    """A law with its coefficients.

    parameters: `t1` in seconds, and `s`, or `sigma`, `kappa` and `peak` (the N of the least time).
    absent: by parameter, why it has no value.
    aicc: null where the points are too few for it.
    worst: the largest deviation from a point, as a part of its time.
    contradicted: whether a point lies far beyond its interval and the floor from the law.
    """

    law: str
    parameters: dict[str, Estimate]
    aicc: float | None
    worst: float
    contradicted: bool
    time: Callable[[Floats], Floats]
    absent: dict[str, str]


def nonnegative(columns: Floats, values: Floats, spreads: Floats) -> Floats:
    """Coefficients of weighted least squares, the first one free and the others not negative: (draws, columns).

    columns: (points, columns). values: (draws, points). spreads: (points,).
    """
    weights = 1 / spreads
    scaled = values * weights
    best = np.zeros((len(values), columns.shape[1]))
    least = np.full(len(values), np.inf)
    others = range(1, columns.shape[1])
    for chosen in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
        kept = [0, *chosen]
        part = columns[:, kept] * weights[:, None]
        found = scaled @ np.linalg.pinv(part).T
        squares = ((found @ part.T - scaled) ** 2).sum(axis=1)
        # Zero is on the border, and rounding may put it beyond.
        better = (squares < least) & (found[:, 1:] >= -1e-12 * np.abs(found[:, :1])).all(axis=1)
        least = np.where(better, squares, least)
        rows = np.flatnonzero(better)
        best[rows] = 0.0
        best[rows[:, None], kept] = found[rows]
    return np.maximum(best, 0.0)


def fit(curve: Curve, law: str, *, weak: bool) -> LawFit:
    """A law fitted to a curve and to each of its draws."""
    ranks = curve.at
    # What is linear in the coefficients: N / throughput, or of Gustafson's law the throughput of a rank.
    power, scale = (-1.0, np.ones_like(ranks)) if law == GUSTAFSON else (1.0, np.ones_like(ranks) if weak else ranks)
    columns = _columns(law, ranks)
    logs = np.vstack([curve.logs, curve.draws])
    values = scale * np.exp(power * logs)
    found = nonnegative(columns, values, values[0] * curve.spreads)
    coefficients, drawn = found[0], found[1:]

    def time(at: Floats) -> Floats:
        part = np.ones_like(at) if weak or law == GUSTAFSON else at
        fitted: Floats = ((_columns(law, at) @ coefficients) / part) ** power
        return fitted

    parameters, absent = _parameters(law, coefficients, drawn, power)
    residuals = np.log(time(ranks)) - curve.logs
    return LawFit(
        law,
        parameters,
        aicc(curve.squares(curve.logs + residuals), len(ranks), columns.shape[1]),
        float(np.abs(np.expm1(residuals)).max()),
        bool((np.abs(residuals) > CONTRADICTS * curve.spreads).any()),
        time,
        absent,
    )


def _columns(law: str, ranks: Floats) -> Floats:
    one, more = np.ones_like(ranks), ranks - 1
    if law == LINEAR:
        return np.stack([one], axis=1)
    if law == GUSTAFSON:
        return np.stack([one, -more / ranks], axis=1)
    if law == AMDAHL:
        return np.stack([one, more], axis=1)
    return np.stack([one, more, ranks * more], axis=1)


def _parameters(
    law: str, coefficients: Floats, drawn: Floats, power: float
) -> tuple[dict[str, Estimate], dict[str, str]]:
    found = {"t1": percentiles(float(coefficients[0] ** power), drawn[:, 0] ** power)}
    absent: dict[str, str] = {}
    if law in (AMDAHL, GUSTAFSON):
        found["s"] = percentiles(float(coefficients[1] / coefficients[0]), drawn[:, 1] / drawn[:, 0])
    if law == USL:
        shares = drawn[:, 1:] / drawn[:, :1]
        sigma, kappa = (float(one) for one in coefficients[1:] / coefficients[0])
        found["sigma"], found["kappa"] = percentiles(sigma, shares[:, 0]), percentiles(kappa, shares[:, 1])
        positive = shares[:, 1] > 0
        if kappa > 0 and positive.mean() >= _CERTAIN:
            peaks = np.sqrt(np.maximum(1 - shares[positive, 0], 0) / shares[positive, 1])
            found["peak"] = percentiles(math.sqrt(max(1 - sigma, 0.0) / kappa), peaks)
        else:
            absent["peak"] = "the interval of kappa reaches 0, so the points show no peak"
    return found, absent


def fits(curve: Curve, *, weak: bool) -> list[LawFit]:
    """The laws that the points are enough for, the best by AICc first; those without AICc last."""
    laws = (LINEAR, GUSTAFSON if weak else AMDAHL, USL)
    found = [fit(curve, law, weak=weak) for law in laws if len(set(curve.at.tolist())) >= LEAST[law]]
    return sorted(found, key=lambda one: math.inf if one.aicc is None else one.aicc)


def near_ties(found: list[LawFit]) -> list[LawFit]:
    """The best fit and those whose AICc is within `NEAR` of it."""
    if not found or found[0].aicc is None:
        return found[:1]
    least = found[0].aicc
    return [one for one in found if one.aicc is not None and one.aicc - least <= NEAR]


def karp_flatt(speedup: Estimate, ranks: float) -> Estimate:
    """The serial part that a speedup on N ranks shows (Karp and Flatt, Communications of the ACM 33, 1990).

    It falls with the speedup, so the ends of the interval change places.
    """

    def serial(value: float) -> float:
        return (1 / value - 1 / ranks) / (1 - 1 / ranks)

    return Estimate(serial(speedup.value), serial(speedup.high), serial(speedup.low))
