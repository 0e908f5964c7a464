"""The simulated workers meet what theory says of them, and every policy does what its name says."""

from typing import Any

import numpy as np
import pytest
import torch

from aiperf_ch17 import routing_policy
from aiperf_ch17.routing_policy import BEGIN_S, TOKENS_PER_S, Router, Session
from aiperf_core.benchmark import call_with
from aiperf_core.simulation import poisson

BENCH = routing_policy.bench
SIZES: dict[str, Any] = BENCH.task.presets["cpu"]


def served(kind: type[Router], **changed: Any) -> Any:
    """The policy behind a call; `changed` are sizes and inputs."""
    given = {**SIZES, "device": "cpu", "generator": torch.Generator().manual_seed(3)}
    given |= changed
    given |= call_with(BENCH.task.inputs, given) | changed
    router = kind()
    call_with(router.prepare, given)
    router.output = call_with(router.run, given)  # type: ignore[attr-defined]
    router.expected = call_with(routing_policy.reference, given)  # type: ignore[attr-defined]
    return router


def first_tokens_s(router: Any) -> Any:
    return np.concatenate([session.waited_s for session in router.sessions])


def computed_tokens(router: Any) -> float:
    """What all workers have prefilled, from the time that they were busy."""
    busy_s = sum(figures.served_s.sum() for figures in router.figures.stations.values())
    turns = sum(len(figures.served_s) for figures in router.figures.stations.values())
    return float((busy_s - turns * BEGIN_S) * TOKENS_PER_S)


def test_one_worker_waits_as_long_as_theory_says() -> None:
    count, load, service_s = 40_000, 0.7, 0.01
    alone = {
        "tokens": torch.full((count, 1), round((service_s - BEGIN_S) * TOKENS_PER_S)),
        "words": torch.zeros(count, 1, dtype=torch.int64),
        "names": torch.zeros(count, dtype=torch.int64),
        "starts_us": torch.from_numpy(1e6 * poisson(load / service_s, count, seed=2)).long(),
        "tools_us": torch.zeros(count, 1, dtype=torch.int64),
    }
    router = served(routing_policy.RoundRobin, workers=1, **alone)
    # M/D/1: services of one length, arrivals of a Poisson process.
    waiting_s = load * service_s / (2 * (1 - load))
    assert first_tokens_s(router).mean() == pytest.approx(waiting_s + service_s, rel=0.04)


def test_affinity_computes_each_token_once_and_others_do_not() -> None:
    affinity, spread = served(routing_policy.Affinity), served(routing_policy.RoundRobin)
    wanted = int(affinity.expected["context"][:, -1].sum())
    assert computed_tokens(affinity) == pytest.approx(wanted)
    assert computed_tokens(spread) > 2 * wanted
    for router in (affinity, spread):
        assert all(torch.equal(router.output[name], right) for name, right in router.expected.items())


def test_a_session_alone_takes_its_own_time() -> None:
    router = served(routing_policy.Estimated, sessions=1, turns=5)
    (session,) = router.sessions
    alone_s = sum(session.tokens) / TOKENS_PER_S + 5 * BEGIN_S + sum(session.tools_us) / 1e6
    assert router.figures.end_s == pytest.approx(alone_s + router.figures.requests[0].arrival_s)
    assert router.output["ttft_p99_s"] == pytest.approx(max(session.tokens) / TOKENS_PER_S + BEGIN_S)


def test_estimates_are_better_than_either_part() -> None:
    found = {kind: served(kind) for kind in (routing_policy.LeastLoaded, routing_policy.Affinity)}
    best = served(routing_policy.Estimated)
    assert all(best.figures.end_s < other.figures.end_s for other in found.values())
    assert best.output["ttft_p99_s"] < 0.5 * found[routing_policy.LeastLoaded].output["ttft_p99_s"]
    assert (first_tokens_s(best) <= best.output["ttft_p99_s"]).mean() == pytest.approx(0.99, abs=0.01)


def test_a_cache_that_is_used_wrongly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(worker: Any, batch: Any) -> float:
        session: Session = batch[0].about
        worker.cached[session] = session.turn, 0, 7
        return service_s(worker, batch)

    service_s = routing_policy.Worker.service_s
    monkeypatch.setattr(routing_policy.Worker, "service_s", forgets)
    router = served(routing_policy.Affinity)
    assert not torch.equal(router.output["answers"], router.expected["answers"])
    assert not torch.equal(router.output["context"], router.expected["context"])


def test_no_policy_is_faster_than_workers_that_compute_each_token_once() -> None:
    least_s = BENCH.work(SIZES).optimum_s
    for one in BENCH.implementations_on("cpu"):
        router = served(one.code)  # type: ignore[arg-type]
        assert computed_tokens(router) >= 0.9 * routing_policy.TURN_TOKENS * SIZES["sessions"] * SIZES["turns"]
        assert router.output["ttft_p99_s"] > least_s
