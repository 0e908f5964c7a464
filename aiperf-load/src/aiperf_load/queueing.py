"""Times in a queue with one server and Poisson arrivals: in closed form, and simulated."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from aiperf_core.errors import UsageError

# Simulated queues begin empty; this many services later they have forgotten that, up to a load of 0.9.
FORGOTTEN = 2000


def _load(rate_per_s: float, service_s: float) -> float:
    load = rate_per_s * service_s
    if not 0 < load < 1:
        raise UsageError(f"a queue is steady at a load above 0 and below 1; {rate_per_s:g} a second of {service_s:g} s "
                         f"each is {load:g}.")  # fmt: skip
    return load


def markov(rate_per_s: float, service_s: float, share: float) -> float:
    """A percentile of the time in an M/M/1 system, in seconds: it is exponential with mean s / (1 - load)."""
    return -math.log1p(-share) * service_s / (1 - _load(rate_per_s, service_s))


def deterministic(rate_per_s: float, service_s: float, share: float) -> float:
    """A percentile of the time in an M/D/1 system, in seconds: the wait by `waits_at_most`, and the service."""
    _load(rate_per_s, service_s)
    return service_s + _inverse(lambda wait_s: waits_at_most(rate_per_s, service_s, wait_s), share, service_s)


def waits_at_most(rate_per_s: float, service_s: float, wait_s: float) -> float:
    """The probability that a request of an M/D/1 queue waits at most this long before its service (Erlang, 1909).

    (1 - load) * sum over k from 0 to floor(wait / s) of (-u)^k / k! * exp(u), with u = rate * (wait - k s).
    """
    load = _load(rate_per_s, service_s)
    with localcontext() as context:
        # The terms alternate in sign and are far larger than their sum.
        context.prec = 100
        rate, service, wait = Decimal(rate_per_s), Decimal(service_s), Decimal(wait_s)
        total = Decimal(0)
        for k in range(int(wait_s / service_s) + 1):
            u = rate * (wait - k * service)
            total += ((-u) ** k if k else Decimal(1)) / math.factorial(k) * u.exp()
        return float(total * (1 - Decimal(load)))


def _inverse(below: Callable[[float], float], share: float, first: float) -> float:
    """The value below which this share lies."""
    if below(0.0) >= share:
        return 0.0
    low, high = 0.0, first
    while below(high) < share:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return high


def simulated(
    rng: np.random.Generator, rate_per_s: float, service_s: float, count: int, *, exponential: bool = False
) -> NDArray[np.float64]:
    """The times of requests in a steady M/D/1 system, or M/M/1, in the order of arrival (Lindley, 1952).

    A request waits for the work that is left when it arrives: w' = max(0, w + s - gap).
    """
    _load(rate_per_s, service_s)
    every = count + FORGOTTEN
    gaps = rng.exponential(1 / rate_per_s, every - 1)
    services = service_s * (rng.exponential(1.0, every) if exponential else np.ones(every))
    walk = np.concatenate(([0.0], np.cumsum(services[:-1] - gaps)))
    return (walk - np.minimum.accumulate(walk) + services)[FORGOTTEN:]
