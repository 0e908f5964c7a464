"""A simulated plan keeps its servers, and a start by capacities ends with the best plan."""

from typing import Any

import pytest
import torch

from aiperf_ch17 import disagg_plan
from aiperf_ch17.disagg_plan import GPUS, TTFT_S, Plan, all_plans, simulated, step_s

ALONE = Plan(4, 4, 32, refuses=False)


def load(seed: int, requests: int = 300) -> Any:
    return disagg_plan.inputs(requests, 70, "cpu", torch.Generator().manual_seed(seed))


def test_a_request_alone_is_good_and_two_events() -> None:
    assert simulated([(1.0, 2000, 60)], ALONE) == (1, 2)
    # 0.5 s of prefill are in time, and a token more is not.
    assert simulated([(1.0, TTFT_S * 20_000, 60)], ALONE) == (1, 2)
    assert simulated([(1.0, TTFT_S * 20_000 + 1, 60)], ALONE) == (0, 2)


def test_what_would_be_late_is_refused_and_what_follows_is_in_time() -> None:
    requests = [(0.0, 10_000, 60)] * 5 + [(0.02, 4000, 60)]
    one = Plan(1, 1, 96, refuses=False)
    assert simulated(requests, one) == (1, 12)
    assert simulated(requests, Plan(1, 1, 96, refuses=True)) == (1, 7)


def test_too_many_texts_in_a_step_are_late_and_places_that_lack_are_waited_for() -> None:
    assert step_s(128) > disagg_plan.TPOT_S > step_s(96)
    assert simulated([(0.0, 100, 60)], Plan(4, 4, 128, refuses=False)) == (0, 2)
    # 16 places: the 17th request waits for the first to end.
    requests = [(0.0, 100, 60)] * 17
    assert simulated(requests, Plan(GPUS - 1, GPUS - 1, 16, refuses=False))[0] == 16


def test_gpus_that_change_sides_are_gone_for_a_while() -> None:
    requests = [(0.0, 100, 10), (10.0, 2000, 10)]
    for second, good in ((1, 2), (7, 2)):
        assert simulated(requests, Plan(1, second, 32, refuses=False))[0] == good
    requests[1:] = [(10.0, 9000, 10)] * 2
    # Of two prompts of 0.45 s, the second waits for a GPU that comes after 0.5 s.
    assert simulated([(0.0, 100, 10)] * 2 + requests[1:], Plan(1, 2, 32, refuses=False))[0] == 3
    assert simulated([(0.0, 100, 10)] * 2 + requests[1:], Plan(2, 2, 32, refuses=False))[0] == 4


@pytest.mark.parametrize("seed", range(3))
def test_a_start_by_capacities_finds_the_best_plan(seed: int) -> None:
    given = load(seed)
    planner = disagg_plan.FromCapacities()
    output = planner.run(**given)
    assert torch.equal(output["answers"], disagg_plan.reference(given["words"], given["best"])["answers"])
    assert len(planner.known) * 15 <= len(all_plans()) == 490
    assert output["planning_s"] >= disagg_plan.cost(300).optimum_s
