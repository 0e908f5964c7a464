"""The steps of `ch04.optimizer_sharding` are well conditioned: the order in which the ranks' gradients are added does not show."""

import pytest
import torch

from aiperf_ch04 import optimizer_sharding
from aiperf_core import fp32_reduction
from aiperf_core.harness.roles.output_check import compare_tensors

N, STEPS = 1 << 18, 3
SHARE = 0.02 * torch.randn(1, N, generator=torch.Generator().manual_seed(1))


def drawn(ranks: int) -> torch.Tensor:
    return torch.randn(ranks, STEPS, 1, N, generator=torch.Generator().manual_seed(0))


def right(gradients: torch.Tensor) -> torch.Tensor:
    (weights,) = optimizer_sharding.reference([SHARE.double()], gradients.double(), len(gradients))
    assert isinstance(weights, torch.Tensor)
    return weights


def stepped(gradients: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The parameters after all steps, in float32, with the ranks' gradients added in this order."""
    weights = SHARE.clone()
    adam = optimizer_sharding.Adam([weights])
    for step in gradients[order].unbind(1):
        total = step[0].clone()
        for one in step[1:]:
            total += one
        adam.step([total / len(order)])
    return weights


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_gradients_that_cancel_leave_half_of_the_tolerance(ranks: int) -> None:
    """The last rank has minus the sum of the others, so that what is left everywhere is what rounding left."""
    gradients = drawn(ranks)
    gradients[-1] = -gradients[:-1].sum(0)
    for first in range(ranks):
        order = [*range(first, ranks), *range(first)]
        found = compare_tensors("weights", stepped(gradients, order), right(gradients), fp32_reduction)
        assert found.error is None
        assert found.worst < 0.5


def test_a_rank_that_is_left_out_lies_far_beyond_it() -> None:
    gradients = drawn(8)
    without = gradients.clone()
    without[3] = 0
    found = compare_tensors("weights", right(without).float(), right(gradients), fp32_reduction)
    assert found.error is not None
    assert found.worst > 100
