"""The simulated GPUs meet what theory says of them, and the plans are what their names say."""

from typing import Any

import numpy as np
import pytest
import torch

from aiperf_ch17 import disagg_goodput
from aiperf_ch17.disagg_goodput import KV_BYTES, TEXT_S, TOKENS_PER_S, WEIGHTS_S, Plan
from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError
from aiperf_core.simulation import poisson

BENCH = disagg_goodput.bench
SIZES: dict[str, Any] = {**BENCH.task.presets["cpu"], "pace": 0.0}


def drawn(**changed: Any) -> dict[str, Any]:
    given = {**SIZES, **changed, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert BENCH.task.static is not None
    return given | call_with(BENCH.task.inputs, given) | call_with(BENCH.task.static, given) | changed


def prepared(kind: type[Plan], given: dict[str, Any]) -> Any:
    plan = kind()
    call_with(plan.prepare, given)
    return plan


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "goodput", lambda plan: 1.0)


@pytest.mark.usefixtures("no_search")
def test_a_prefill_gpu_waits_as_long_as_theory_says() -> None:
    count, load, tokens = 30_000, 0.7, 400
    service_s = tokens / TOKENS_PER_S
    gaps_us = torch.from_numpy(1e6 * np.diff(poisson(load / service_s, count, seed=2), prepend=0)).long()
    ones = torch.ones(count, dtype=torch.int64)
    plan = prepared(disagg_goodput.EvenSplit, drawn(gpus=2, prompts=tokens * ones, outputs=ones, gaps_us=gaps_us))
    texts = plan.simulate([1] * count, 1.0, 0.0)
    waits = [text.tokens_s[0] - request.arrival_s for text, request in zip(texts, plan.figures.requests, strict=True)]
    # M/D/1: services of one length, arrivals of a Poisson process.
    assert np.mean(waits) == pytest.approx(service_s + load * service_s / (2 * (1 - load)), rel=0.05)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("kind", [disagg_goodput.Colocated, disagg_goodput.Chunked, disagg_goodput.EvenSplit])
def test_a_request_alone_takes_its_own_time(kind: type[Plan]) -> None:
    plan = prepared(kind, drawn(requests=1, prompts=torch.tensor([3001]), outputs=torch.tensor([9])))
    (text,) = plan.simulate([1], 1.0, 0.0)
    first_s = text.tokens_s[0] - plan.figures.requests[0].arrival_s
    # A chunk computes for less time than its weights are read.
    alone_s = 12 * WEIGHTS_S if kind is disagg_goodput.Chunked else 3001 / TOKENS_PER_S
    assert first_s == pytest.approx(alone_s)
    moved_s = KV_BYTES * 3001 / SIZES["link_bytes_per_s"] if kind is disagg_goodput.EvenSplit else 0.0
    assert text.tokens_s[-1] - text.tokens_s[0] == pytest.approx(8 * (WEIGHTS_S + TEXT_S) + moved_s)


def test_plans_are_as_good_as_their_names() -> None:
    given = drawn()
    found = {one.name: prepared(one.code, given) for one in BENCH.implementations_on("cpu")}  # type: ignore[arg-type]
    rate = {name: plan.rate for name, plan in found.items()}
    assert 1.3 * rate["colocated"] < rate["even_split"] < rate["best_split"]
    assert 1.3 * rate["colocated"] < rate["chunked"]
    for plan in found.values():
        texts = plan.simulate([1] * SIZES["requests"], plan.rate, 0.0)
        assert [len(text.tokens_s) for text in texts] == given["outputs"].tolist()
        assert [text.done for text in texts] == given["prompts"].tolist()
        assert plan.good(texts) >= disagg_goodput.GOOD
        # No server computes more than it can: what was prefilled fits into the time that GPUs were busy.
        busy_s = sum(figures.utilisation for figures in plan.figures.stations.values()) * plan.figures.end_s
        assert int(given["prompts"].sum()) / TOKENS_PER_S <= busy_s


def test_what_cannot_be_is_skipped() -> None:
    with pytest.raises(SkipError, match=r"^takes a GPU for prefill and another for decode$"):
        prepared(disagg_goodput.BestSplit, drawn(gpus=1))
    with pytest.raises(SkipError, match=r"^the deadlines are missed at a request a second$"):
        prepared(disagg_goodput.Colocated, drawn(tpot_s=0.001))
