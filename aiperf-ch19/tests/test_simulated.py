"""Simulated controllers and tuners: the bounds are exact, and each does what its name says."""

from typing import Any

import pytest
import torch

from aiperf_ch19 import adaptive_batch_controller, bandit_tuner
from aiperf_ch19.adaptive_batch_controller import fitting
from aiperf_ch19.steps import step_s, tokens
from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError


def taken_s(module: Any, kind: Any, seed: int = 1, **changed: Any) -> float:
    """The virtual time of an implementation, whose answer is right."""
    task = module.bench.task
    given = {**task.presets["cpu"], **changed, "device": "cpu", "generator": torch.Generator().manual_seed(seed)}
    given |= call_with(task.inputs, given)
    one = kind()
    if hasattr(one, "prepare"):
        call_with(one.prepare, given)
    output = call_with(one.run, given)
    assert torch.equal(output["answers"], module.reference(given["words"])["answers"])
    seconds: float = output["serving_s"]
    least: float = call_with(module.cost, given).optimum_s
    assert seconds >= least
    return seconds


@pytest.mark.parametrize("context", [1.0, 499.0, 4000.0, 1e6])
@pytest.mark.parametrize("limit_s", [0.0151, 0.025, 0.3])
def test_no_more_texts_fit_than_fit(context: float, limit_s: float) -> None:
    counted = [texts for texts in range(1, adaptive_batch_controller.MOST + 1) if step_s(texts, context) <= limit_s]
    assert fitting(context, limit_s) == max(counted, default=1)


def test_a_model_of_steps_comes_near_the_clairvoyant() -> None:
    here = adaptive_batch_controller
    times = {kind: taken_s(here, kind) for kind in (here.Fixed, here.Aimd, here.Pid, here.Modelled, here.Clairvoyant)}
    assert [*times.values()] == sorted(times.values(), reverse=True)
    assert times[here.Modelled] < 1.05 * times[here.Clairvoyant]


def test_a_margin_for_long_delays_costs_more_than_late_steps() -> None:
    here = adaptive_batch_controller
    assert taken_s(here, here.Aimd, delay=0.1) < taken_s(here, here.Pid, delay=0.1)


def test_a_deadline_that_no_step_keeps_is_refused() -> None:
    with pytest.raises(SkipError, match=r"^a step of one text takes 15\.7 ms; raise deadline_s$"):
        taken_s(adaptive_batch_controller, adaptive_batch_controller.Fixed, deadline_s=0.0155)


def test_guesses_add_a_geometric_sum_of_tokens() -> None:
    assert tokens(0, 0.9) == 1
    assert tokens(3, 0.5) == pytest.approx(1.875)


def test_a_window_keeps_the_regret_within_eight_hundredths() -> None:
    here = bandit_tuner
    best_s = taken_s(here, here.Clairvoyant)
    assert taken_s(here, here.Windowed) < 1.08 * best_s
    assert taken_s(here, here.Thompson) > 1.08 * best_s
    assert taken_s(here, here.Usual) == pytest.approx(1.30 * best_s, rel=0.01)  # as the docstring says


def test_what_a_window_forgets_leaves_no_trace() -> None:
    tuner: Any = bandit_tuner.Windowed()
    tuner.begin()
    for number in range(3 * bandit_tuner.MEMORY):
        tuner.note(number % 3, 0.25)
    assert sum(tuner.counts) == bandit_tuner.MEMORY
    tuner.begin()
    for _ in range(bandit_tuner.MEMORY):
        tuner.note(1, 0.5)
    for _ in range(bandit_tuner.MEMORY):
        tuner.note(0, 0.25)
    assert (tuner.counts[1], tuner.sums[1], tuner.mean_s(0), tuner.spread_s()) == (0, 0.0, 0.25, 0.0)
