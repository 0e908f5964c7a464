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
SIZES: dict[str, Any] = BENCH.task.presets["cpu"]


def drawn(seed: int = 1, **changed: Any) -> dict[str, Any]:
    given = {**SIZES, **changed, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
    return given | call_with(BENCH.task.inputs, given) | changed


def served(kind: type[Plan], given: dict[str, Any]) -> Any:
    """The plan after a trace, with its output and its texts."""
    plan = kind()
    call_with(plan.prepare, given)
    kept = []
    simulate = plan.simulate

    def keeping(*trace: Any) -> Any:
        kept[:] = simulate(*trace)
        return kept

    plan.simulate = keeping  # type: ignore[method-assign]
    plan.output = call_with(plan.run, given)  # type: ignore[attr-defined]
    plan.texts = kept  # type: ignore[attr-defined]
    return plan


def test_a_prefill_gpu_waits_as_long_as_theory_says() -> None:
    count, load, tokens = 30_000, 0.7, 400
    service_s = tokens / TOKENS_PER_S
    gaps_us = torch.from_numpy(1e6 * np.diff(poisson(load / service_s, count, seed=2), prepend=0)).long()
    ones = torch.ones(count, dtype=torch.int64)
    rate = 1e6 * count / int(gaps_us.sum())
    given = drawn(
        gpus=2, rate_per_s=rate, requests=count, prompts=tokens * ones, outputs=ones, words=ones, gaps_us=gaps_us
    )
    plan = served(disagg_goodput.EvenSplit, given)
    pairs = zip(plan.texts, plan.figures.requests, strict=True)
    waits = [text.tokens_s[0] - request.arrival_s for text, request in pairs]
    # M/D/1: services of one length, arrivals of a Poisson process.
    assert np.mean(waits) == pytest.approx(service_s + load * service_s / (2 * (1 - load)), rel=0.05)


def test_a_state_of_zero_is_a_state() -> None:
    modulus, prompt = disagg_goodput.MODULUS, 300
    word = -31 * prompt * pow(32, -1, modulus) % modulus  # 31 (word + prompt) + word is a multiple of the modulus
    given = drawn(requests=1, words=torch.tensor([word]), prompts=torch.tensor([prompt]), outputs=torch.tensor([3]))
    plan = served(disagg_goodput.Chunked, given)
    assert torch.equal(plan.output["answers"], call_with(disagg_goodput.reference, given)["answers"])


@pytest.mark.parametrize("kind", [disagg_goodput.Colocated, disagg_goodput.Chunked, disagg_goodput.EvenSplit])
def test_a_request_alone_takes_its_own_time(kind: type[Plan]) -> None:
    plan = served(kind, drawn(requests=1, prompts=torch.tensor([3001]), outputs=torch.tensor([9])))
    (text,) = plan.texts
    first_s = text.tokens_s[0] - plan.figures.requests[0].arrival_s
    # A chunk computes for less time than its weights are read.
    alone_s = 12 * WEIGHTS_S if kind is disagg_goodput.Chunked else 3001 / TOKENS_PER_S
    assert first_s == pytest.approx(alone_s)
    moved_s = KV_BYTES * 3001 / SIZES["link_bytes_per_s"] if kind is disagg_goodput.EvenSplit else 0.0
    assert text.tokens_s[-1] - text.tokens_s[0] == pytest.approx(8 * (WEIGHTS_S + TEXT_S) + moved_s)
    assert plan.output["s_per_good"] == pytest.approx(1 / SIZES["rate_per_s"]), "it is good"


def test_plans_are_as_good_as_their_names() -> None:
    seeds = range(3)
    goodput: dict[str, float] = {}
    for one in BENCH.implementations_on("cpu"):
        plans = [served(one.code, drawn(seed)) for seed in seeds]  # type: ignore[arg-type]
        goodput[one.name] = float(np.mean([1 / plan.output["s_per_good"] for plan in plans]))
        for plan, seed in zip(plans, seeds, strict=True):
            given = drawn(seed)
            assert torch.equal(plan.output["answers"], call_with(BENCH._reference, given)["answers"])
            assert [len(text.tokens_s) for text in plan.texts] == given["outputs"].tolist()
            assert [text.done for text in plan.texts] == given["prompts"].tolist()
            assert plan.good(plan.texts) / (len(plan.texts) / SIZES["rate_per_s"]) == pytest.approx(
                1 / plan.output["s_per_good"]
            )
            # No server computes more than it can: what was prefilled fits into the time that GPUs were busy.
            busy_s = sum(figures.utilisation for figures in plan.figures.stations.values()) * plan.figures.end_s
            assert int(given["prompts"].sum()) / TOKENS_PER_S <= busy_s
    assert 1.3 * goodput["even_split"] < goodput["best_split"] <= SIZES["rate_per_s"]
    assert 1.3 * goodput["colocated"] < goodput["chunked"]
    assert 1.3 * goodput["colocated"] < goodput["best_split"]


def test_what_cannot_be_is_skipped() -> None:
    with pytest.raises(SkipError, match=r"^takes a GPU for prefill and another for decode$"):
        served(disagg_goodput.BestSplit, drawn(gpus=1))
    with pytest.raises(SkipError, match=r"^the deadlines are missed by every request of a trace; lower rate_per_s$"):
        served(disagg_goodput.Colocated, drawn(tpot_s=0.001, ttft_s=0.001))
