"""The tolerance of the chapter's networks: rounding stays within it, and nothing that is wrong does."""

from typing import Any

import pytest
import torch

from aiperf_ch04 import ddp_overlap, grad_accum_sync, pipeline_schedule
from aiperf_ch04.rounding import DEEPEST, ONE_ROUNDING, rounded_layers
from aiperf_core.validity.output_check import Comparison, compare_tensors, quality

RANKS, MICRO, LAYERS, WIDTH, ROWS = 8, 8, 8, 64, 16


def compared(found: Any, right: Any) -> list[Comparison]:
    """What the judge says of each gradient."""
    pairs = zip(found, right, strict=True)
    return [compare_tensors(f"layer{index}", *pair, rounded_layers) for index, pair in enumerate(pairs)]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layers", [16, 24, 32, DEEPEST])
def test_errors_of_rounding_are_as_derived_and_leave_room(layers: int) -> None:
    width, rows = 256, 128
    weights = (drawn(layers, width, width) * (2 / (width * layers)) ** 0.5).bfloat16()
    x, upstream = drawn(2, 1, rows, width, seed=1).bfloat16()
    (found,) = ddp_overlap.reference(x, upstream, [list(weights)], 1)
    (right,) = ddp_overlap.reference(x.double(), upstream.double(), [list(weights.double())], 1)
    errors = [quality("rel_l2", *pair) for pair in zip(found, right, strict=True)]
    assert max(errors) == pytest.approx(ONE_ROUNDING * (layers + 6) ** 0.5, rel=0.1)
    assert max(errors) < rounded_layers.rel_l2 / 1.5


def data_parallel(x: torch.Tensor, upstream: torch.Tensor, weights: torch.Tensor) -> Any:
    """The gradients of rank 0; each rank has the micro-batches of a row, one after the other."""
    return ddp_overlap.reference(x.flatten(1, 2), upstream.flatten(1, 2), [list(weights)] * RANKS, RANKS)[0]


def accumulated(x: torch.Tensor, upstream: torch.Tensor, weights: torch.Tensor) -> Any:
    return grad_accum_sync.reference(x, upstream, [list(weights)] * RANKS, RANKS)[0]


def pipelined(x: torch.Tensor, upstream: torch.Tensor, weights: torch.Tensor) -> Any:
    """The gradients of all ranks, which have a layer each; all micro-batches go through all of them."""
    every = pipeline_schedule.reference(x.flatten(0, 1)[None], upstream.flatten(0, 1)[None], weights[:, None], 1, RANKS)
    return [one for (one,) in every]


@pytest.mark.parametrize("gradients", [data_parallel, accumulated, pipelined])
@pytest.mark.parametrize(
    "left_out",
    [(3,), (3, 5), (slice(1, None),)],
    ids=["one rank", "one micro-batch of one rank", "all other ranks"],
)
def test_a_share_that_is_left_out_lies_far_beyond_it(gradients: Any, left_out: Any) -> None:
    weights = drawn(LAYERS, WIDTH, WIDTH).double() * (2 / (WIDTH * LAYERS)) ** 0.5
    x, upstream = drawn(2, RANKS, MICRO, ROWS, WIDTH, seed=1).double()
    right = gradients(x, upstream, weights)
    without = upstream.clone()
    without[left_out] = 0
    found = compared(gradients(x, without, weights), right)
    assert all(one.error for one in found)
    assert min(one.worst for one in found) > 5
