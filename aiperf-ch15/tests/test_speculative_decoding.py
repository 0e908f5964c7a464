"""As many rounds as theory says; `pytest --aiperf` tests that the answer is that of the target alone."""

from typing import Any

import pytest
import torch

from aiperf_ch15 import speculative_decoding
from aiperf_ch15.speculative_decoding import DraftModel, Greedy, PromptLookup
from aiperf_core.benchmark import bind, call_with
from aiperf_core.models import ModelConfig

SIZES: dict[str, Any] = {
    **ModelConfig(layers=1, width=64, heads=2, kv_heads=1, hidden=48, vocabulary=1024).sizes,
    "draft_layers": 1,
    "draft_width": 64,
    "bits": 32,
    "prompt": 161,
    "answer": 160,
}


def rounds(kind: type[Greedy], seed: int, **sizes: Any) -> int:
    """The rounds of one answer, which is right."""
    draw = {**SIZES, **sizes, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
    task = speculative_decoding.bench.task
    assert task.static is not None
    given = {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}
    instance, counted = kind(), []
    call_with(instance.prepare, given)
    instance.next = lambda: counted.append(instance.round())
    out = bind(instance.run, given)()
    chain = speculative_decoding.continued(given["weights"]["successor"], int(given["text"][-1]), SIZES["answer"])
    assert out["tokens"].tolist() == chain
    return len(counted)


@pytest.mark.parametrize(("agreement", "ahead"), [(0.6, 3), (0.8, 4), (0.9, 8)])
def test_accepted_guesses_are_as_many_as_independent_ones(agreement: float, ahead: int) -> None:
    expected = (1 - agreement ** (ahead + 1)) / (1 - agreement)
    seeds = range(3)
    found = sum(rounds(DraftModel, seed, agreement=agreement, ahead=ahead, copied=0.0) for seed in seeds)
    assert len(seeds) * SIZES["answer"] / found == pytest.approx(expected, rel=0.15)


def test_a_draft_that_is_always_right_needs_the_fewest_rounds() -> None:
    assert rounds(DraftModel, 1, agreement=1.0, ahead=7, copied=0.0) == SIZES["answer"] / 8
    assert rounds(DraftModel, 1, agreement=0.0, ahead=7, copied=0.0) == SIZES["answer"]


def test_lookup_finds_what_the_prompt_has() -> None:
    none, half, most = (rounds(PromptLookup, 1, agreement=0.0, ahead=4, copied=share) for share in (0.0, 0.5, 0.9))
    assert none > 0.95 * SIZES["answer"]
    assert none > 1.2 * half > 1.2 * 1.2 * most


def test_greedy_takes_a_round_for_each_token() -> None:
    assert rounds(Greedy, 1, agreement=0.5, ahead=4, copied=0.5) == SIZES["answer"]
