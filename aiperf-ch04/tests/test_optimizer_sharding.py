"""The steps of `ch04.optimizer_sharding` are well conditioned: the order in which the ranks' gradients are added does not show."""

import pytest
import torch

from aiperf_ch04 import optimizer_sharding
from aiperf_core import fp32_reduction
from aiperf_core.validity.output_check import compare_tensors

N, STEPS = 1 << 16, 3
SHARE = 0.02 * torch.randn(1, N, generator=torch.Generator().manual_seed(1))
CURVATURE = torch.ones(STEPS, 1)


def drawn(ranks: int) -> torch.Tensor:
    """The targets of the ranks, each with N parameters of one share."""
    return torch.randn(ranks, N, generator=torch.Generator().manual_seed(0))


def right(targets: torch.Tensor) -> torch.Tensor:
    # Every rank has a part of the parameters.
    parts = [one[None] for one in SHARE[0].double().chunk(len(targets))]
    curvature = [CURVATURE.double()] * len(targets)
    return torch.cat([one for (one,) in optimizer_sharding.reference(parts, targets.double(), curvature, len(targets))])


def stepped(targets: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The parameters after all steps, in float32, with the ranks' gradients added in this order."""
    weights = SHARE.clone()
    adam = optimizer_sharding.Adam([weights])
    for _ in range(STEPS):
        total = weights[0] - targets[order[0]]
        for rank in order[1:]:
            total += weights[0] - targets[rank]
        adam.step([total[None] / len(order)])
    return weights[0]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_gradients_that_cancel_leave_half_of_the_tolerance(ranks: int) -> None:
    """The targets have the parameters as their mean, so that the first mean gradient is what rounding left."""
    targets = drawn(ranks)
    targets[-1] = ranks * SHARE[0] - targets[:-1].sum(0)
    for first in range(ranks):
        order = [*range(first, ranks), *range(first)]
        found = compare_tensors("weights", stepped(targets, order), right(targets), fp32_reduction)
        assert found.error is None
        assert found.worst < 0.5


def test_a_rank_that_is_left_out_lies_far_beyond_it() -> None:
    targets = drawn(8)
    without = targets.clone()
    without[3] = SHARE[0]
    found = compare_tensors("weights", right(without).float(), right(targets), fp32_reduction)
    assert found.error is not None
    assert found.worst > 100
