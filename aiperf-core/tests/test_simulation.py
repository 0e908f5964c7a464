"""Simulations: their figures against formulas of queueing theory, and invariants that see what breaks them."""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.errors import UsageError
from aiperf_core.simulation import (
    Request,
    Run,
    Simulation,
    SimulationError,
    Visit,
    check_finished,
    check_integrals,
    check_station,
    check_stationary,
    poisson,
    trace,
)

RATE, SERVICE_S = 0.6, 1.0  # a load of 0.6
COUNT = 40_000


def one_station(times: Any, service_s: Any, **options: Any) -> Simulation:
    simulation = Simulation()
    station = simulation.station("desk", service_s, **options)

    def serve(request: Request) -> Generator[simpy.Event, Any, None]:
        yield station.visit(request)

    simulation.arrive(times, serve)
    return simulation


def drawn(count: int, seed: int = 2) -> Any:
    """Service times of an exponential distribution, one a request."""
    draws = np.random.default_rng(seed).exponential(SERVICE_S, count)
    return lambda batch: float(draws[batch[0].number])


@pytest.mark.parametrize(
    ("service_s", "expected_s"),
    [
        # Kleinrock, Queueing Systems I (1975): rho / (mu - lambda), and half of it for constant service.
        (drawn(COUNT), RATE * SERVICE_S**2 / (1 - RATE * SERVICE_S)),
        (lambda batch: SERVICE_S, RATE * SERVICE_S**2 / (2 * (1 - RATE * SERVICE_S))),
    ],
    ids=["M/M/1", "M/D/1"],
)
def test_the_mean_wait_of_a_queue(service_s: Any, expected_s: float) -> None:
    run = one_station(poisson(RATE, COUNT, seed=1), service_s).run(stationary_within=0.02)
    desk = run.stations["desk"]
    assert desk.waiting_s.mean() == pytest.approx(expected_s, rel=0.06)
    assert desk.utilisation == pytest.approx(RATE * SERVICE_S, rel=0.02)
    assert desk.mean_here == pytest.approx(run.latency_s.mean() * run.per_s)


def test_every_wait_is_that_of_lindleys_recursion() -> None:
    count = 3000
    times, service_s = poisson(RATE, count, seed=3), drawn(count)
    waits = one_station(times, service_s).run().stations["desk"].waiting_s
    right = [0.0]
    for at in range(1, count):
        before = service_s([Request(at - 1, 0.0)])
        right.append(max(0.0, right[-1] + before - (times[at] - times[at - 1])))
    assert waits == pytest.approx(np.array(right), abs=1e-6)


def test_two_servers_and_batches() -> None:
    run = one_station(trace([0, 0, 0, 0, 0]), lambda batch: 1.0 + len(batch), servers=2, most=2).run()
    desk = run.stations["desk"]
    assert (desk.waiting_s.tolist(), desk.served_s.tolist()) == ([0, 0, 0, 0, 3], [3, 3, 3, 3, 2])
    assert (run.end_s, desk.batch, desk.utilisation) == (5.0, 5 / 3, 8 / 10)


def test_a_server_that_holds_waits_until_its_batch_is_full() -> None:
    times = trace([0.0, 0.4, 2.0])
    assert one_station(times, lambda batch: 1.0, most=2, hold_s=0.5).run().latency_s == pytest.approx([1.4, 1.0, 1.5])
    assert one_station(times, lambda batch: 1.0, most=3, hold_s=0.5).run().latency_s == pytest.approx([1.5, 1.1, 1.5])
    assert one_station(times, lambda batch: 1.0, most=2).run().latency_s == pytest.approx([1.0, 1.6, 1.0])


def test_the_order_of_service_and_what_is_known_of_a_request() -> None:
    simulation = Simulation()
    station = simulation.station("desk", lambda batch: batch[0].about, order=lambda request: request.about)

    def serve(request: Request) -> Generator[simpy.Event, Any, None]:
        yield simulation.environment.timeout(0.5)
        yield station.visit(request)

    simulation.arrive(trace([0, 0.1, 0.2]), serve, about=[4.0, 3.0, 1.0])
    assert simulation.run().latency_s == pytest.approx([4.5, 8.4, 5.3])


def test_the_same_seed_gives_the_same_run() -> None:
    def figures(seed: int) -> list[float]:
        return list(one_station(poisson(RATE, 500, seed), drawn(500)).run().latency_s)

    assert figures(1) == figures(1)
    assert figures(1) != figures(2)


@settings(deadline=None, max_examples=40)
@given(
    gaps=st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=30),
    servers=st.integers(1, 3),
    most=st.integers(1, 4),
    hold_s=st.sampled_from([0.0, 0.5]),
)
def test_any_station_keeps_the_invariants(gaps: list[float], servers: int, most: int, hold_s: float) -> None:
    def service_s(batch: Sequence[Request]) -> float:
        return 0.5 * (1 + batch[0].number % 4)

    run = one_station(trace(np.cumsum(gaps)), service_s, servers=servers, most=most, hold_s=hold_s).run()
    assert isinstance(run, Run)
    assert len(run.stations["desk"].waiting_s) == len(gaps)


# --- invariants that do not hold


def visit(entered_s: float, started_s: float | None, left_s: float | None, batch: int, number: int = 0) -> Visit:
    return Visit(Request(number, entered_s), entered_s, started_s, left_s, batch)


def refused(check: Any, *arguments: Any) -> str:
    with pytest.raises(SimulationError) as caught:
        check(*arguments)
    return str(caught.value)


def test_a_request_that_is_lost() -> None:
    simulation = Simulation()

    def serve(request: Request) -> Generator[simpy.Event, Any, None]:
        yield simulation.environment.event() if request.number == 1 else simulation.environment.timeout(1)

    simulation.arrive(trace([0, 1, 2]), serve)
    assert refused(simulation.run) == "1 of 3 requests were never finished: 1"
    many = [Request(number, 0.0) for number in range(8)]
    assert refused(check_finished, many) == "8 of 8 requests were never finished: 0, 1, 2, 3, 4 and 3 more"
    assert refused(check_finished, [Request(7, 2.0, finished_s=1.0)]) == "requests were finished before they arrived: 7"


def test_a_visit_that_never_ends_or_is_out_of_order() -> None:
    assert refused(check_station, "a", [visit(0, 1, None, 0)], 1) == "station 'a': 1 of 1 visits never ended: 0"
    assert refused(check_station, "a", [visit(2, 1, 3, 0)], 1) == (
        "station 'a': request 0 entered at 2 s, started at 1 s and left at 3 s, which is not in order"
    )


def test_a_server_that_is_idle_while_a_request_waits() -> None:
    late = [visit(0, 1, 2, 0)]
    assert refused(check_station, "a", late, 1) == (
        "station 'a': 0 of 1 servers were busy and 1 requests waited from 0 s to 1 s"
    )
    check_station("a", late, 1, idle_allowed=True)


def test_more_work_at_once_than_there_are_servers() -> None:
    both = [visit(0, 0, 2, 0), visit(0, 0, 2, 1)]
    check_station("a", both, 2)
    assert refused(check_station, "a", both, 1) == (
        "station 'a': 2 of 1 servers were busy and 0 requests waited from 0 s to 2 s"
    )


def test_integrals_that_are_not_the_sums() -> None:
    visits = [visit(0, 0, 2, 0), visit(1, 2, 3, 1)]
    check_integrals("a", visits, 4.0, 3.0)
    assert refused(check_integrals, "a", visits, 4.1, 3.0) == (
        "station 'a' breaks Little's law: the number of its requests adds up to 4.1 request seconds, their times there "
        "to 4"
    )
    assert refused(check_integrals, "a", visits, 4.0, 2.0) == (
        "station 'a' does not conserve work: its servers were busy for 2 s, and their services took 3 s"
    )


def test_a_load_above_one_is_not_stationary() -> None:
    simulation = one_station(poisson(1.5, 2000, seed=1), lambda batch: 1.0)
    message = refused(lambda: simulation.run(stationary_within=0.05))
    assert message.startswith("station 'desk' is not stationary: ")
    assert message.endswith("accepted is a difference of 5 %. Lower the load, or simulate longer")
    assert refused(check_stationary, "a", [visit(0, 0, 1, 0)], 0.05) == (
        "station 'a': 1 visits are too few for a stationary run"
    )


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_service_time_that_is_none(seconds: float) -> None:
    simulation = one_station(trace([0]), lambda batch: seconds)
    assert refused(simulation.run) == f"station 'desk': a service time of {seconds!r} seconds; accepted is 0 on"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: poisson(0, 5, 1), "arrivals take a rate above 0 and a count from 1; got 0 a second, 5"),
        (lambda: trace([1, 0]), "a trace takes arrival times in order, from 0, in seconds; these are not"),
        (lambda: trace([]), "a trace takes arrival times in order, from 0, in seconds; these are not"),
        (
            lambda: Simulation().station("a", lambda batch: 1.0, servers=0),
            "station 'a' takes servers and most from 1, and hold_s from 0; got servers=0, most=1, hold_s=0",
        ),
        (
            lambda: Simulation().arrive(trace([0, 1]), lambda request: iter(()), about=[1]),  # type: ignore[arg-type]
            "2 requests arrive, and 1 are described; give one entry for each",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ask()
    assert str(caught.value) == message


def test_two_stations_of_one_name() -> None:
    simulation = Simulation()
    simulation.station("a", lambda batch: 1.0)
    with pytest.raises(UsageError, match="there is a station 'a' already"):
        simulation.station("a", lambda batch: 1.0)
