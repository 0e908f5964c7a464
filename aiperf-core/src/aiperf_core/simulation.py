"""Event simulations of requests that arrive, wait for servers and are served, with invariants checked on every run.

    simulation = Simulation()
    gpus = simulation.station("gpus", servers=2, most=8, service_s=lambda batch: 0.01 + 0.002 * len(batch))

    def serve(request):
        yield gpus.visit(request)

    simulation.arrive(poisson(rate_per_s=150, count=10_000, seed=1), serve)
    run = simulation.run()
    run.latency_s.mean(), run.stations["gpus"].utilisation

Time is virtual, in seconds from 0. `simpy` has the clock and the queue of events; a `serve` function is one of its
processes, and may also wait for `simulation.environment.timeout(seconds)`. A simulation without random numbers of its
own gives the same figures in each run.

Every run is checked, and raises `SimulationError` where an invariant does not hold:

- each request is finished once, and leaves each station as often as it enters it;
- nothing starts before it arrives, nor ends before it starts;
- no server is idle while a request waits (unless `hold_s` says so), and the busy time is the sum of the service times;
- Little's law: the integral of the number of requests in a station is the sum of the times that they spend there. A
  run that is said to be stationary must also keep L = lambda W without its begin and its end.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import count as counting
from typing import Any

import numpy as np
import simpy
from attrs import define, field, frozen
from numpy.typing import NDArray

from aiperf_core.errors import AiperfError, UsageError

__all__ = [
    "Request",
    "Run",
    "Simulation",
    "SimulationError",
    "Station",
    "StationFigures",
    "Visit",
    "poisson",
    "trace",
]

Times = NDArray[np.float64]
Serve = Callable[["Request"], Generator[simpy.Event, Any, None]]
# Relative; times are sums of up to a million float64.
ROUNDING = 1e-9
# The part of the requests at the begin and at the end that stationary averages leave out.
MARGIN = 0.1
SHOWN = 5  # requests that a message names


class SimulationError(AiperfError):
    """An invariant of a simulation does not hold."""


# --- arrivals


def poisson(rate_per_s: float, count: int, seed: int) -> Times:
    """The times of `count` arrivals of a Poisson process, in order. Raises `UsageError` for a rate of 0 or less."""
    if not (math.isfinite(rate_per_s) and rate_per_s > 0) or count < 1:
        raise UsageError(f"arrivals take a rate above 0 and a count from 1; got {rate_per_s:g} a second, {count}")
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_per_s, count))


def trace(times_s: Iterable[float]) -> Times:
    """Recorded arrival times, in seconds from 0. Raises `UsageError` for times that are not in order."""
    found = np.fromiter(times_s, dtype=np.float64)
    if not len(found) or not np.isfinite(found).all() or found[0] < 0 or (np.diff(found) < 0).any():
        raise UsageError("a trace takes arrival times in order, from 0, in seconds; these are not")
    return found


# --- what is simulated


@define(eq=False)
class Request:
    """A request.

    number: its place in the order of arrivals.
    arrival_s: when it arrived.
    finished_s: when its process ended; None while it is served.
    about: what the simulation knows of it, such as its number of tokens.
    """

    number: int
    arrival_s: float
    about: Any = None
    finished_s: float | None = None


@define(eq=False)
class Visit:
    """A request at a station: when it entered, when its service started and ended, and the batch it was served in."""

    request: Request
    entered_s: float
    started_s: float | None = None
    left_s: float | None = None
    batch: int | None = None


class Station:
    """Servers that share a queue. Made by `Simulation.station`."""

    def __init__(
        self,
        environment: simpy.Environment,
        name: str,
        service_s: Callable[[Sequence[Request]], float],
        servers: int,
        most: int,
        hold_s: float,
        order: Callable[[Request], Any] | None,
    ) -> None:
        if servers < 1 or most < 1 or not (math.isfinite(hold_s) and hold_s >= 0):
            raise UsageError(
                f"station {name!r} takes servers and most from 1, and hold_s from 0; got servers={servers}, "
                f"most={most}, hold_s={hold_s:g}"
            )
        self.name, self.servers, self.most, self.hold_s = name, servers, most, hold_s
        self._environment, self._service_s, self._order = environment, service_s, order
        self._queue = simpy.PriorityStore(environment)
        self._places, self._batches = counting(), counting()
        self.visits: list[Visit] = []
        # Integrals over time, kept as the run goes on: the number of requests here, and of busy servers.
        self._here = self._busy = 0
        self._changed_s = self.request_s = self.busy_s = 0.0
        for _ in range(servers):
            environment.process(self._server())

    def visit(self, request: Request) -> simpy.Event:
        """Enter the queue; the event to wait for comes when the request is served."""
        visit, served = Visit(request, self._environment.now), self._environment.event()
        self.visits.append(visit)
        self._advance(here=1)
        key = self._order(request) if self._order else 0
        self._queue.put(simpy.PriorityItem((key, next(self._places)), (visit, served)))
        return served

    def _server(self) -> Generator[simpy.Event, Any, None]:
        environment, queue = self._environment, self._queue
        while True:
            batch = [(yield queue.get()).item]
            deadline = environment.timeout(self.hold_s)
            while len(batch) < self.most and (queue.items or self.hold_s):
                more = queue.get()
                yield more | deadline
                if not more.triggered:
                    more.cancel()
                    break
                found: Any = more.value
                batch.append(found.item)
            seconds = self._service_s([visit.request for visit, _ in batch])
            if not (math.isfinite(seconds) and seconds >= 0):
                raise SimulationError(f"station {self.name!r}: a service time of {seconds!r} seconds; accepted is 0 on")
            number, started_s = next(self._batches), environment.now
            self._advance(busy=1)
            yield environment.timeout(seconds)
            self._advance(here=-len(batch), busy=-1)
            for visit, served in batch:
                visit.started_s, visit.left_s, visit.batch = started_s, environment.now, number
                served.succeed()

    def _advance(self, here: int = 0, busy: int = 0) -> None:
        passed_s = self._environment.now - self._changed_s
        self.request_s += passed_s * self._here
        self.busy_s += passed_s * self._busy
        self._here, self._busy = self._here + here, self._busy + busy
        self._changed_s = self._environment.now


class Simulation:
    """A simulation that has not run yet."""

    def __init__(self) -> None:
        self.environment = simpy.Environment()
        self._stations: dict[str, Station] = {}
        self._requests: list[Request] = []

    def station(
        self,
        name: str,
        service_s: Callable[[Sequence[Request]], float],
        *,
        servers: int = 1,
        most: int = 1,
        hold_s: float = 0.0,
        order: Callable[[Request], Any] | None = None,
    ) -> Station:
        """Add a station.

        service_s: the seconds that a server needs for a batch of requests.
        servers: how many batches are served at once.
        most: requests of a batch. A free server takes what waits, up to this many.
        hold_s: how long a free server waits for a batch to fill.
        order: the smaller its value, the earlier a request is served; None for the order of arrival.
        """
        if name in self._stations:
            raise UsageError(f"there is a station {name!r} already; give each its own name")
        self._stations[name] = Station(self.environment, name, service_s, servers, most, hold_s, order)
        return self._stations[name]

    def arrive(self, times_s: Times, serve: Serve, about: Sequence[Any] | None = None) -> None:
        """Let a request arrive at each time, and `serve(request)` run for it.

        about: what is known of each request, as `request.about`; None for nothing. Raises `UsageError` for another
        number of entries than of times.
        """
        if about is not None and len(about) != len(times_s):
            raise UsageError(f"{len(times_s)} requests arrive, and {len(about)} are described; give one entry for each")
        known = [None] * len(times_s) if about is None else about
        first = len(self._requests)
        requests = [Request(first + at, float(when), known[at]) for at, when in enumerate(times_s)]
        self._requests += requests
        self.environment.process(self._arrivals(requests, serve))

    def _arrivals(self, requests: list[Request], serve: Serve) -> Generator[simpy.Event, Any, None]:
        for request in requests:
            yield self.environment.timeout(request.arrival_s - self.environment.now)
            # The clock adds differences up, and rounds.
            request.arrival_s = self.environment.now
            self.environment.process(self._served(request, serve))

    def _served(self, request: Request, serve: Serve) -> Generator[simpy.Event, Any, None]:
        yield from serve(request)
        if request.finished_s is not None:
            raise SimulationError(f"request {request.number} was finished twice")
        request.finished_s = self.environment.now

    def run(self, *, stationary_within: float | None = None) -> "Run":
        """Simulate until nothing happens any more, check the invariants, and return the figures.

        stationary_within: the run is said to be stationary: without a tenth of the requests at each end, L and
            lambda W of each station must agree to this relative tolerance, such as 0.05. None checks the exact form
            of Little's law alone.
        """
        self.environment.run()
        end_s = self.environment.now
        found = Run(self._requests, {name: _figures(one, end_s) for name, one in self._stations.items()}, end_s)
        check_finished(found.requests)
        for name, station in self._stations.items():
            check_station(name, station.visits, station.servers, idle_allowed=station.hold_s > 0)
            check_integrals(name, station.visits, station.request_s, station.busy_s)
            if stationary_within is not None:
                check_stationary(name, station.visits, stationary_within)
        return found


@frozen
class StationFigures:
    """Figures of a station.

    waiting_s, served_s: of each visit in the order of entering: the time in the queue, and the time being served.
    utilisation: the share of the run that a server was busy, on average.
    mean_here: the number of requests in the station, on average over time.
    batch: requests of a batch, on average.
    """

    waiting_s: Times
    served_s: Times
    utilisation: float
    mean_here: float
    batch: float


@frozen
class Run:
    """A finished simulation: its requests in the order of arrival, the figures of its stations, and its length."""

    requests: list[Request] = field(repr=False)
    stations: dict[str, StationFigures]
    end_s: float

    @property
    def latency_s(self) -> Times:
        """From arrival to end, of each request."""
        return np.array([(one.finished_s or 0.0) - one.arrival_s for one in self.requests])

    @property
    def per_s(self) -> float:
        """Finished requests per second."""
        return len(self.requests) / self.end_s


def _figures(station: Station, end_s: float) -> StationFigures:
    done = [one for one in station.visits if one.started_s is not None and one.left_s is not None]
    batches = len({one.batch for one in done})
    return StationFigures(
        np.array([(one.started_s or 0.0) - one.entered_s for one in done]),
        np.array([(one.left_s or 0.0) - (one.started_s or 0.0) for one in done]),
        station.busy_s / (station.servers * end_s) if end_s else 0.0,
        station.request_s / end_s if end_s else 0.0,
        len(done) / batches if batches else 0.0,
    )


# --- invariants


def check_finished(requests: Sequence[Request]) -> None:
    """Every request that arrived is finished, and not before it arrived."""
    lost = [one.number for one in requests if one.finished_s is None]
    if lost:
        raise SimulationError(f"{len(lost)} of {len(requests)} requests were never finished: {_named(lost)}")
    early = [one.number for one in requests if one.finished_s is not None and one.finished_s < one.arrival_s]
    if early:
        raise SimulationError(f"requests were finished before they arrived: {_named(early)}")


def check_station(name: str, visits: Sequence[Visit], servers: int, *, idle_allowed: bool = False) -> None:
    """Every visit ends, its times are in order, and no server is idle or overbooked while requests wait."""
    lost = [one.request.number for one in visits if one.left_s is None or one.started_s is None]
    if lost:
        raise SimulationError(f"station {name!r}: {len(lost)} of {len(visits)} visits never ended: {_named(lost)}")
    edges: list[tuple[float, int, int]] = []  # time, change of the waiting requests, change of the busy servers
    batches: dict[int | None, tuple[float, float]] = {}
    for one in visits:
        assert one.started_s is not None
        assert one.left_s is not None
        if not one.entered_s <= one.started_s <= one.left_s:
            raise SimulationError(
                f"station {name!r}: request {one.request.number} entered at {one.entered_s:g} s, started at "
                f"{one.started_s:g} s and left at {one.left_s:g} s, which is not in order"
            )
        edges += [(one.entered_s, 1, 0), (one.started_s, -1, 0)]
        batches[one.batch] = one.started_s, one.left_s
    edges += [edge for started_s, left_s in batches.values() for edge in ((started_s, 0, 1), (left_s, 0, -1))]
    waiting = busy = 0
    before_s = 0.0
    for at_s, more_waiting, more_busy in sorted(edges):
        if at_s > before_s and (busy > servers or (waiting and busy < servers and not idle_allowed)):
            raise SimulationError(
                f"station {name!r}: {busy} of {servers} servers were busy and {waiting} requests waited from "
                f"{before_s:g} s to {at_s:g} s"
            )
        waiting, busy, before_s = waiting + more_waiting, busy + more_busy, at_s


def check_integrals(name: str, visits: Sequence[Visit], request_s: float, busy_s: float) -> None:
    """Little's law and conservation of work, of a whole run: integrals over time equal sums over visits."""
    spent_s = math.fsum((one.left_s or 0.0) - one.entered_s for one in visits)
    if not math.isclose(request_s, spent_s, rel_tol=ROUNDING, abs_tol=ROUNDING):
        raise SimulationError(
            f"station {name!r} breaks Little's law: the number of its requests adds up to {request_s:g} request "
            f"seconds, their times there to {spent_s:g}"
        )
    batches = {one.batch: (one.left_s or 0.0) - (one.started_s or 0.0) for one in visits}
    worked_s = math.fsum(batches.values())
    if not math.isclose(busy_s, worked_s, rel_tol=ROUNDING, abs_tol=ROUNDING):
        raise SimulationError(
            f"station {name!r} does not conserve work: its servers were busy for {busy_s:g} s, and their services "
            f"took {worked_s:g} s"
        )


def check_stationary(name: str, visits: Sequence[Visit], tolerance: float) -> None:
    """L = lambda W between the arrival of the request after the first tenth and of that before the last tenth."""
    entered = np.array([one.entered_s for one in visits])
    left = np.array([one.left_s for one in visits], dtype=np.float64)
    first, last = int(MARGIN * len(visits)), len(visits) - int(MARGIN * len(visits)) - 1
    begin_s, end_s = entered[first], entered[last]
    if end_s <= begin_s:
        raise SimulationError(f"station {name!r}: {len(visits)} visits are too few for a stationary run")
    length_s = end_s - begin_s
    # The time that each visit spends within the window, against the whole times of those that enter in it.
    mean_here = np.clip(np.minimum(left, end_s) - np.maximum(entered, begin_s), 0, None).sum() / length_s
    inside = slice(first, last)
    little = (left[inside] - entered[inside]).sum() / length_s
    if not math.isclose(mean_here, little, rel_tol=tolerance):
        raise SimulationError(
            f"station {name!r} is not stationary: {mean_here:.4g} requests are in it on average, and lambda W is "
            f"{little:.4g}; accepted is a difference of {100 * tolerance:g} %. Lower the load, or simulate longer"
        )


def _named(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more
