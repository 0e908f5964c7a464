"""As many rounds as theory says; `pytest --aiperf` tests that the answer is that of the target alone."""

from functools import partial
from typing import Any

import pytest
import torch

from aiperf_ch15 import speculative_decoding
from aiperf_ch15.speculative_decoding import (
    Adaptive,
    DraftModel,
    Greedy,
    PromptLookup,
    adaptive_cost,
    best_guesses,
    greedy_cost,
    guessing_cost,
)
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


def guesses_of(kind: type[Greedy], seed: int, **sizes: Any) -> list[int]:
    """The number of guesses of each round of one answer, which is right."""
    draw = {**SIZES, **sizes, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
    task = speculative_decoding.bench.task
    assert task.static is not None
    given = {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}
    instance, counted = kind(), list[int]()
    call_with(instance.prepare, given)

    def noted(count: int) -> None:
        counted.append(count)
        instance.round(count)

    instance.rounds = {count: partial(noted, count) for count in instance.counts}
    out = bind(instance.run, given)()
    chain = speculative_decoding.continued(given["weights"]["successor"], int(given["text"][-1]), given["answer"])
    assert out["tokens"].tolist() == chain
    return counted


def rounds(kind: type[Greedy], seed: int, **sizes: Any) -> int:
    return len(guesses_of(kind, seed, **sizes))


@pytest.mark.parametrize(("agreement", "ahead"), [(0.6, 3), (0.8, 4), (0.9, 8)])
def test_accepted_guesses_are_as_many_as_independent_ones(agreement: float, ahead: int) -> None:
    expected = (1 - agreement ** (ahead + 1)) / (1 - agreement)
    seeds = range(3)
    found = sum(rounds(DraftModel, seed, agreement=agreement, ahead=ahead, copied=0.0) for seed in seeds)
    assert len(seeds) * SIZES["answer"] / found == pytest.approx(expected, rel=0.02)


def test_a_draft_that_is_always_right_needs_the_fewest_rounds() -> None:
    assert rounds(DraftModel, 1, agreement=1.0, ahead=7, copied=0.0) == SIZES["answer"] / 8
    assert rounds(DraftModel, 1, agreement=0.0, ahead=7, copied=0.0) == SIZES["answer"]


class Timed(Adaptive):
    def seconds(self, count: int) -> float:
        return 1.0 + 0.1 * count


def test_adaptive_guesses_less_where_guesses_are_wrong() -> None:
    wrong, right = (guesses_of(Timed, 1, agreement=share, ahead=3, copied=0.0) for share in (0.0, 1.0))
    assert {*wrong[6:]} == {1}
    assert {*right[6:]} == {6}


@pytest.mark.parametrize(
    ("agreement", "guess_s", "best"), [(0.0, 0.1, 1), (1.0, 0.1, 8), (0.5, 0.5, 1), (0.9, 0.01, 8)]
)
def test_the_best_number_of_guesses(agreement: float, guess_s: float, best: int) -> None:
    assert best_guesses(agreement, 8, lambda count: 1.0 + count * guess_s) == best


def test_the_best_number_of_guesses_is_that_of_the_formula() -> None:
    rates = {count: (1 - 0.8 ** (count + 1)) / (1 - 0.8) / (1 + 0.12 * count) for count in range(1, 9)}
    assert best_guesses(0.8, 8, lambda count: 1 + 0.12 * count) == max(rates, key=lambda count: rates[count])


def test_lookup_finds_what_the_prompt_has() -> None:
    none, half, most = (rounds(PromptLookup, 1, agreement=0.0, ahead=4, copied=share) for share in (0.0, 0.5, 0.9))
    assert none > 0.95 * SIZES["answer"]
    assert none > 1.2 * half > 1.2 * 1.2 * most


def test_greedy_takes_a_round_for_each_token() -> None:
    assert rounds(Greedy, 1, agreement=0.5, ahead=4, copied=0.5) == SIZES["answer"]


@pytest.mark.parametrize(("preset", "drafted", "looked_up"), [("cpu", 14, 24), ("cuda", 76, 112)])
def test_every_draw_takes_the_predicted_rounds(preset: str, drafted: int, looked_up: int) -> None:
    # A model of one layer says the same tokens as that of the preset.
    small = {name: SIZES[name] for name in ("layers", "width", "heads", "kv_heads", "hidden", "draft_width", "bits")}
    sizes = {**speculative_decoding.bench.task.presets[preset], **small}
    assert {rounds(DraftModel, seed, **sizes) for seed in (1, 2)} == {drafted}
    # A piece may stand before the piece that follows it in the answer, or end with the answer.
    assert all(abs(rounds(PromptLookup, seed, **sizes) - looked_up) <= 1 for seed in (1, 2))


def test_weights_that_no_cache_keeps_are_read_once_a_pass() -> None:
    sizes = dict(speculative_decoding.bench.task.presets["cuda"]) | {"bits": 16}
    costs = (speculative_decoding.cost, greedy_cost, guessing_cost, adaptive_cost)
    read = [cost(**sizes).bytes_read for cost in costs]
    assert [round(count / read[0]) for count in read] == [1, 256, 52, 29]
