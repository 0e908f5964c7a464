"""The kernels of attention, on the host: fragments, the diagonal, edges of tiles and heads."""

from typing import Any

import pytest
import torch
from torch.nn import functional

# A token; a step with an edge; two tiles, of which the second has three steps; a step behind the diagonal of its warps.
SIZES = [(1, 1), (2, 50), (2, 180), (1, 256)]


def operands(heads: int, length: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values of heads, and their attention in float64."""
    q, keys, values = (torch.randn(heads, length, 128).bfloat16() for _ in range(3))
    expected = functional.scaled_dot_product_attention(q.double(), keys.double(), values.double(), is_causal=True)
    return q, keys, values, expected


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
@pytest.mark.parametrize("name", ["tiled", "skipped"])
def test_one_pass_gives_the_attention(emulated: Any, name: str, eager: bool) -> None:
    code = emulated("attention_fusion.cu")
    for heads, length in SIZES:
        q, keys, values, expected = operands(heads, length)
        out = torch.full_like(q, torch.nan)
        grid = (heads * -(-length // 128), 1)
        code.launch(name, q, keys, values, out, length, grid=grid, threads=128, eager=eager)
        assert (out.double() - expected).norm() / expected.norm() < 5e-3


def test_softmax_between_two_products_gives_the_attention(emulated: Any) -> None:
    code = emulated("attention_fusion.cu")
    for heads, length in [*SIZES, (1, 700)]:
        q, keys, values, expected = operands(heads, length)
        scores = torch.full((heads, length, -(-length // 8) * 8), torch.nan, dtype=torch.bfloat16)
        shares = scores[:, :, :length]
        shares[:] = (q.float() @ keys.float().mT).bfloat16()
        rows = heads * length
        code.launch("masked_softmax", scores, rows, length, scores.shape[2], grid=(-(-rows // 4), 1), threads=128)
        assert (shares.double() @ values.double() - expected).norm() / expected.norm() < 5e-3
