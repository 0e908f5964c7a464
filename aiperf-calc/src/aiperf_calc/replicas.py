"""Event simulations of replicas that share a queue: a fixed number of them, or as many as a policy asks for."""

import heapq
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy
from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.simulation import Request, Simulation, Times

ServiceS = Callable[[int], float]


@frozen(kw_only=True)
class Served:
    """The times of a simulated run.

    latency_s: of each request, from arrival to end.
    end_s: when the last request ended.
    replicas: over time, pairs of a moment and the number of replicas that are paid from then on.
    """

    latency_s: Times
    end_s: float
    replicas: Sequence[tuple[float, int]] = field(factory=tuple)

    def goodput_per_s(self, limit_s: float) -> float:
        """Requests within the limit, by second of the arrivals and of the time until the last end."""
        return float((self.latency_s <= limit_s).sum()) / self.end_s if self.end_s else 0.0

    def share(self, limit_s: float) -> float:
        """The share of requests within the limit."""
        return float((self.latency_s <= limit_s).mean())

    @property
    def replica_s(self) -> float:
        """Seconds of replicas that are paid."""
        ends = [*(moment for moment, _ in self.replicas[1:]), self.end_s]
        return math.fsum((end - begin) * count for (begin, count), end in zip(self.replicas, ends, strict=True))


def serve(arrivals_s: Times, replicas: int, service_s: ServiceS, most: int = 1) -> Served:
    """Simulate a fixed number of replicas, by the core's simulation and its invariants.

    service_s: the seconds of a batch by its size.
    most: the largest batch.
    """
    simulation = Simulation()
    station = simulation.station("replicas", lambda batch: service_s(len(batch)), servers=replicas, most=most)

    def visit(request: Request) -> Generator[simpy.Event, Any, None]:
        yield station.visit(request)

    simulation.arrive(arrivals_s, visit)
    run = simulation.run()
    return Served(latency_s=run.latency_s, end_s=run.end_s, replicas=[(0.0, replicas)])


@frozen(kw_only=True)
class Policy:
    """When replicas are started and stopped.

    goodput_per_s: what a replica is taken to carry.
    headroom: the share that is kept free.
    every_s: how often the policy looks.
    window_s: the time over which it counts arrivals.
    start_s: the time from the order of a replica to its first request. It is paid from the order on.
    least, most: the number of replicas.
    """

    goodput_per_s: float
    headroom: float = 0.2
    every_s: float = 10.0
    window_s: float = 60.0
    start_s: float = 60.0
    least: int = 1
    most: int = 1000

    def __attrs_post_init__(self) -> None:
        times = (self.goodput_per_s, self.every_s, self.window_s)
        if not all(math.isfinite(number) and number > 0 for number in times) or min(self.headroom, self.start_s) < 0:
            raise UsageError(
                "a scaling policy takes a goodput, a period and a window above 0, and a headroom and a start from 0."
            )
        if not 1 <= self.least <= self.most:
            raise UsageError(f"a policy keeps from 1 replica on, least to most; got {self.least} to {self.most}.")

    def wanted(self, arrivals: int, seconds: float) -> int:
        """Replicas for the arrivals of the last `seconds`."""
        count = math.ceil(arrivals / seconds * (1 + self.headroom) / self.goodput_per_s - 1e-9) if seconds else 0
        return min(max(count, self.least), self.most)


def scale(arrivals_s: Times, policy: Policy, service_s: ServiceS, most: int = 1) -> Served:
    """Simulate replicas that a policy starts and stops. A replica that is stopped first ends its batch.

    Events are handled in the order of time; of the same moment, ends first, then starts, arrivals and the policy.
    """
    arrivals = [float(moment) for moment in arrivals_s]
    latency, waiting, first = np.zeros(len(arrivals)), [], 0
    ready, busy, starting, surplus = policy.least, 0, 0, 0
    paid = [(0.0, ready)]
    ends: list[tuple[float, int, int, tuple[int, ...]]] = [
        (moment, 2, number, (number,)) for number, moment in enumerate(arrivals)
    ]
    if arrivals:
        ends.append((policy.every_s, 3, 0, ()))
    heapq.heapify(ends)
    now, number, left = 0.0, len(arrivals), len(arrivals)
    while left:
        now, kind, _, which = heapq.heappop(ends)
        if kind == 0:
            for request in which:
                latency[request] = now - arrivals[request]
            left, busy = left - len(which), busy - 1
            if surplus:
                surplus, ready = surplus - 1, ready - 1
                paid.append((now, ready + starting))
        elif kind == 1:
            starting, ready = starting - 1, ready + 1
        elif kind == 2:
            waiting.append(which[0])
        else:
            begin = max(0.0, now - policy.window_s)
            arrived = int(np.searchsorted(arrivals_s, now, "right") - np.searchsorted(arrivals_s, begin, "right"))
            missing = policy.wanted(arrived, now - begin) - (ready - surplus + starting)
            kept = min(surplus, max(missing, 0))
            surplus, missing = surplus - kept, missing - kept
            for _ in range(max(missing, 0)):
                number += 1
                heapq.heappush(ends, (now + policy.start_s, 1, number, ()))
                starting += 1
            # Replicas that are starting cannot be called back.
            stopped = min(max(-missing, 0), ready - surplus)
            idle = min(stopped, ready - busy - surplus)
            ready, surplus = ready - idle, surplus + stopped - idle
            if ready + starting != paid[-1][1]:
                paid.append((now, ready + starting))
            heapq.heappush(ends, (now + policy.every_s, 3, 0, ()))
        while first < len(waiting) and busy < ready - surplus:
            batch = tuple(waiting[first : first + most])
            first, busy, number = first + len(batch), busy + 1, number + 1
            heapq.heappush(ends, (now + service_s(len(batch)), 0, number, batch))
    return Served(latency_s=latency, end_s=now, replicas=paid)
