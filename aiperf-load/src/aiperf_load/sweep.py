"""The search for the highest rate that a server can serve within its limits, and the bend of its curve."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from aiperf_core.errors import UsageError
from aiperf_core.stats.draws import ends, log_draws
from aiperf_load.intervals import ROUNDED_NORMAL, Figure
from aiperf_load.outcomes import Kind
from aiperf_load.records import Knee, Point

MET = 0.99
PRECISION = 0.05  # relative width at which the bisection ends
MOST_POINTS = 40
TRIES = 3  # measurements of a rate at which the generator is late
DRAWS = 1000


def search(
    measure: Callable[[float], Point | None],
    low_per_s: float,
    high_per_s: float,
    *,
    factor: float = 2.0,
    met: float = MET,
    precision: float = PRECISION,
) -> list[Point]:
    """Measure geometric rates from low to high until two miss the limits, then bisect; the points in order.

    measure: measures a rate; None ends the search early.

    Two misses end the rising rates, so that the curve shows what lies beyond the capacity. A rate at which the
    generator was late is measured again, and tells nothing where it stays late. Raises UsageError for wrong rates.
    """
    check_rates(low_per_s, high_per_s, factor=factor, met=met, precision=precision)
    found: list[Point] = []

    def answer(rate: float) -> bool | None:
        """Whether a rate meets the limits; None where that is not known."""
        for _ in range(min(TRIES, MOST_POINTS - len(found))):
            point = measure(rate)
            if point is None:
                raise _EndedError
            found.append(point)
            if meets(point, met) is not None:
                return meets(point, met)
        return None

    with suppress(_EndedError):
        rate, missed = low_per_s, 0
        while rate <= high_per_s * (1 + 1e-9) and missed < 2 and len(found) < MOST_POINTS:
            met_them = answer(rate)
            if met_them is not None:
                missed = 0 if met_them else missed + 1
            rate *= factor
        while len(found) < MOST_POINTS:
            good, bad = bounds(found, met)
            if good is None or bad is None or bad / good < 1 + precision or answer((good * bad) ** 0.5) is None:
                break
    return found


class _EndedError(Exception):
    """The measuring was ended from outside."""


def check_rates(low_per_s: float, high_per_s: float, *, factor: float, met: float, precision: float) -> None:
    """Raise UsageError for rates and shares that no search can have."""
    if not 0 < low_per_s < high_per_s < np.inf or not 1 < factor < np.inf or not 0 < met <= 1 or not 0 < precision < 1:
        raise UsageError(
            "a sweep takes --from above 0 and below --to, --factor above 1, and --met and --precision between 0 and 1; "
            f"got --from {low_per_s:g} --to {high_per_s:g} --factor {factor:g} --met {met:g} --precision {precision:g}."
        )


def meets(point: Point, met: float) -> bool | None:
    """Whether a point serves at least the share `met` of its requests within the limits, and does not fall behind.

    None where the generator was late: its requests came otherwise than asked for.
    """
    if not point.trusted and point.counted_outcomes.get(Kind.OK.name):
        return None
    return (point.goodput_share.value or 0.0) >= met and point.trusted and point.state != "OVERLOAD"


def bounds(points: Sequence[Point], met: float) -> tuple[float | None, float | None]:
    """The highest rate that meets the limits below the lowest that misses them, and the latter."""
    asked = sorted(
        (one.spec.arrivals.rate_per_s or 0.0, meets(one, met)) for one in points if meets(one, met) is not None
    )
    bad = next((rate for rate, good in asked if not good), None)
    good = [rate for rate, fine in asked if fine and (bad is None or rate < bad)]
    return (good[-1] if good else None), bad


def knee(points: Sequence[Point], met: float) -> Knee:
    """Capacity of the server, and the bend in the curve of its points."""
    usable = sorted((one for one in points if one.complete), key=lambda one: one.spec.arrivals.rate_per_s or 0.0)
    good, bad = bounds(usable, met)
    late = any(meets(one, met) is None and (good or 0.0) <= (one.spec.arrivals.rate_per_s or 0.0) for one in usable)
    if good is None:
        sweep = "was trusted and met the limits" if late else "met the limits; sweep from a lower rate"
        capacity = Figure(reason=f"no measured rate {sweep}")
    elif bad is None:
        sweep = "no higher rate was trusted" if late else "every measured rate met the limits; sweep to a higher rate"
        capacity = Figure(value=good, low=good, reason=sweep)
    else:
        capacity = Figure(value=good, low=good, high=bad)
    return Knee(capacity_per_s=capacity, met=met, rate_per_s=_bend(usable))


def _bend(points: Sequence[Point]) -> Figure:
    """The rate of the point farthest from the line between the ends of the curve, with the range over draws."""
    kept = [one for one in points if one.trusted and one.user_tokens_per_s.value is not None]
    if len(kept) < 4:
        return Figure(reason=f"a bend needs 4 trusted points with several tokens a request; there are {len(kept)}")
    rates = np.array([one.spec.arrivals.rate_per_s or 0.0 for one in kept])
    x = np.array([one.output_tokens_per_s for one in kept])
    y = np.array([one.user_tokens_per_s.value for one in kept], dtype=np.float64)
    low = np.array([one.user_tokens_per_s.low or one.user_tokens_per_s.value for one in kept], dtype=np.float64)
    high = np.array([one.user_tokens_per_s.high or one.user_tokens_per_s.value for one in kept], dtype=np.float64)
    rng = np.random.default_rng(6)
    # Log-normal, so that 95 % of the draws lie within the interval of each point.
    spread = np.log(high / low) / (2 * ROUNDED_NORMAL)
    draws = np.exp(log_draws(y, spread, rng, DRAWS))
    bends = rates[[_farthest(x, one) for one in draws]]
    low, high = ends(bends, "nearest")
    return Figure(value=float(rates[_farthest(x, y)]), low=float(low), high=float(high))


def _farthest(
    x: "np.ndarray[tuple[int], np.dtype[np.float64]]", y: "np.ndarray[tuple[int], np.dtype[np.float64]]"
) -> int:
    """The index of the point farthest above the line between the ends, both axes scaled to 1."""
    wide, tall = float(np.ptp(x)) or 1.0, float(np.ptp(y)) or 1.0
    along, up = (x - x[0]) / wide, (y - y[0]) / tall
    return int(np.argmax(up * (along[-1] or 1.0) - along * up[-1]))
