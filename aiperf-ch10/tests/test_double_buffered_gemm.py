"""The kernels of the product by stages, on the host: fragments, swizzle, stages and edges."""

from typing import Any

import pytest
import torch

# An edge in every direction; one step; fewer steps than stages; more.
SIZES = [(130, 131, 8), (128, 256, 72), (1, 136, 328)]


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_every_number_of_stages_gives_the_product(emulated: Any, eager: bool) -> None:
    code = emulated("double_buffered_gemm.cu")
    for m, n, k in SIZES:
        a, b = (torch.randn(rows, k).bfloat16() for rows in (m, n))
        maps = [code.box_map(matrix, (128, 64), 128) for matrix in (a, b)]
        expected = a.float() @ b.float().T
        grid = (-(-m // 128) * -(-n // 128), 1)
        for name in ("one_stage", "two_stages", "three_stages", "tma"):
            out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
            operands = maps if name == "tma" else (a, b)
            code.launch(f"{name}2", *operands, out, m, n, k, grid=grid, threads=128, eager=eager)
            torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
