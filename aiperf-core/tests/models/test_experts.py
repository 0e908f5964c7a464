"""Layers of experts: choices follow their probabilities, rows are sorted and put back, tiles have all rows."""

import math

import pytest
import torch
from torch.nn import functional

from aiperf_core.kernels import TritonSource
from aiperf_core.kernels.check import compile_all, sources_in
from aiperf_core.models import experts as experts_module
from aiperf_core.models.experts import (
    TILE_COLUMNS,
    combined,
    expected_experts,
    expert_kernels,
    expert_tiles,
    expert_weights,
    popularity,
    router_logits,
    sorted_by_expert,
    swiglu,
    to_slots,
)

FIVE = popularity(5, skew=1.5)


def drawn(tokens: int, seed: int = 1) -> torch.Tensor:
    return router_logits(FIVE, tokens, "cpu", torch.Generator().manual_seed(seed))


def test_popularity_falls_with_the_rank() -> None:
    assert popularity(4, 0.0).tolist() == [0.25] * 4
    assert (popularity(3, 1.0) * 11).tolist() == pytest.approx([6, 3, 2])


def test_the_largest_logits_are_draws_by_popularity() -> None:
    tokens = 40_000
    first, second = drawn(tokens).topk(2, -1).indices.unbind(-1)
    shares = torch.bincount(first, minlength=5) / tokens
    assert shares.sort(descending=True).values.tolist() == pytest.approx(FIVE.tolist(), abs=0.01)
    # Behind the most popular expert, the others are drawn by what is left.
    most = int(shares.argmax())
    others = torch.bincount(second[first == most], minlength=5).sort(descending=True).values
    assert (others[:4] / others.sum()).tolist() == pytest.approx((FIVE[1:] / FIVE[1:].sum()).tolist(), abs=0.015)
    assert torch.equal(drawn(7), drawn(7))


def test_the_mean_number_of_experts_is_that_of_draws() -> None:
    draws = torch.multinomial(FIVE.expand(20_000, -1), 3, replacement=True, generator=torch.Generator().manual_seed(2))
    mean = sum(len(set(row)) for row in draws.tolist()) / len(draws)
    assert expected_experts(FIVE, 3) == pytest.approx(mean, rel=0.01)
    apart = drawn(20_000).topk(3, -1).indices
    assert expected_experts(FIVE, 3) < sum(len(set(row)) for row in apart.tolist()) / len(apart) == 3


def test_weights_keep_the_scale_of_rows() -> None:
    weights = expert_weights(3, 64, 32, "cpu", torch.bfloat16, torch.Generator().manual_seed(3))
    assert (weights["gate_up"].shape, weights["down"].shape) == ((3, 64, 64), (3, 32, 64))
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert float(weights["down"].float().std()) == pytest.approx(1 / math.sqrt(32), rel=0.05)


@pytest.mark.parametrize(("tokens", "chosen"), [(1, 1), (1, 5), (17, 2)])
def test_rows_by_expert_are_the_sum_over_experts(tokens: int, chosen: int) -> None:
    generator = torch.Generator().manual_seed(4)
    weights = expert_weights(5, 6, 8, "cpu", torch.float64, generator)
    x = torch.randn(tokens, 6, dtype=torch.float64, generator=generator)
    values, routes = drawn(tokens).topk(chosen, -1)
    shares = values.softmax(-1)
    order, ends = sorted_by_expert(routes, 5)
    assert (ends.dtype, int(ends[-1])) == (torch.int32, tokens * chosen)
    assert routes.flatten()[order].tolist() == sorted(routes.flatten().tolist())
    rows, results, begin = x[order // chosen], [], 0
    for expert, end in enumerate(ends.tolist()):
        results.append(swiglu(rows[begin:end] @ weights["gate_up"][expert]) @ weights["down"][expert])
        begin = end
    right = torch.zeros_like(x)
    for token in range(tokens):
        for share, expert in zip(shares[token], routes[token], strict=True):
            gate, up = (x[token] @ weights["gate_up"][expert]).split(8)
            right[token] += share * (functional.silu(gate) * up @ weights["down"][expert])
    torch.testing.assert_close(combined(to_slots(torch.cat(results), order), shares), right)


@pytest.mark.parametrize("slots", [1, 2, 15, 16, 17, 100, 384, 1000])
@pytest.mark.parametrize("experts", [1, 3, 64, 67])
def test_no_counts_have_more_tiles_than_a_launch(slots: int, experts: int) -> None:
    tiles, size = expert_tiles(slots, experts)
    assert 16 <= size["ROWS"] <= 128
    assert size["EXPERTS"] >= experts
    # As many experts as there can be with a row each, and the other rows in full tiles: no counts have more.
    active = min(experts, slots)
    rest = slots - active
    counts = [1 + (rest // size["ROWS"] * size["ROWS"] if expert == 0 else 0) for expert in range(active)]
    assert sum(-(-count // size["ROWS"]) for count in counts) <= tiles


def test_kernels_are_found_where_a_module_imports_them() -> None:
    assert isinstance(expert_kernels, TritonSource)
    assert sources_in(experts_module.__name__) == [expert_kernels]
    assert {ahead.kernel for ahead in expert_kernels.ahead} == set(TILE_COLUMNS)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION is unset:UserWarning")
def test_kernels_compile_without_a_gpu() -> None:
    pytest.importorskip("triton", reason="needs triton")
    outcomes = list(compile_all([("models.experts", experts_module.__name__)], ("sm_80",)))
    assert [(one.status, one.reason) for one in outcomes] == [("ok", "")] * len(expert_kernels.ahead)
