"""Rounds are as many as theory says, and the chosen number of guesses is the best one."""

from typing import Any

import pytest
import torch

from aiperf_core.benchmark import bind, call_with
from aiperf_core.models import ModelConfig
from aiperf_labs import draft_verify
from aiperf_labs.draft_verify import Adaptive, DraftModel, best_guesses

SIZES: dict[str, Any] = {
    **ModelConfig(layers=1, width=64, heads=2, kv_heads=1, hidden=48, vocabulary=1024).sizes,
    "draft_layers": 1,
    "draft_width": 64,
    "bits": 32,
    "batch": 2,
    "prompt": 5,
    "answer": 160,
}


def answered(kind: type[DraftModel], **sizes: Any) -> list[tuple[int, int]]:
    """The guesses and the right ones of each round of each text, of answers that are right."""
    draw = {**SIZES, **sizes, "device": "cpu", "generator": torch.Generator().manual_seed(2)}
    task = draft_verify.bench.task
    assert task.static is not None
    given = {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}
    instance, found = kind(), []
    call_with(instance.prepare, given)
    learn = instance.learn

    def noted(guesses: int, right: list[int]) -> None:
        found.extend((guesses, one) for one in right)
        learn(guesses, right)

    instance.learn = noted  # type: ignore[method-assign]
    out = bind(instance.run, given)()["tokens"]
    following = given["weights"]["successor"]
    token = given["text"][:, -1]
    for place in range(SIZES["answer"]):
        token = following[token]
        assert torch.equal(out[:, place], token)
    return found


@pytest.mark.parametrize(("agreement", "ahead"), [(0.6, 3), (0.8, 4)])
def test_rounds_add_as_many_tokens_as_independent_guesses(agreement: float, ahead: int) -> None:
    found = answered(DraftModel, agreement=agreement, ahead=ahead)
    expected = (1 - agreement ** (ahead + 1)) / (1 - agreement)
    assert sum(right + 1 for _, right in found) / len(found) == pytest.approx(expected, rel=0.15)


def test_adaptive_guesses_less_where_guesses_are_wrong() -> None:
    class Timed(Adaptive):
        def seconds(self, call: Any) -> float:
            call()
            return 1.0  # all guesses of a round, or one judgement

    wrong, right = (answered(Timed, agreement=share, ahead=6) for share in (0.0, 1.0))
    assert {guesses for guesses, _ in wrong[6:]} == {1}
    assert {guesses for guesses, _ in right[6:]} == {6}
    assert all(found == guesses for guesses, found in right)


@pytest.mark.parametrize(
    ("agreement", "draft_s", "best"), [(0.0, 0.1, 1), (1.0, 0.1, 8), (0.5, 0.5, 1), (0.9, 0.01, 8)]
)
def test_the_best_number_of_guesses(agreement: float, draft_s: float, best: int) -> None:
    assert best_guesses(agreement, 8, draft_s, lambda count: 1.0) == best


def test_the_best_number_of_guesses_is_that_of_the_formula() -> None:
    rates = {count: (1 - 0.8 ** (count + 1)) / (1 - 0.8) / (1 + 0.12 * count) for count in range(1, 9)}
    assert best_guesses(0.8, 8, 0.12, lambda count: 1.0) == max(rates, key=lambda count: rates[count])
