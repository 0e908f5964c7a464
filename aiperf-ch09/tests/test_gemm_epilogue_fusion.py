"""Epilogues on the host: rows of gate and up in turn, edges of tiles and of halves, residuals loaded ahead."""

from typing import Any

import pytest
import torch

from aiperf_ch09.gemm_epilogue_fusion import bench, columns_of, form_of, in_turn, reference
from aiperf_core.benchmark import call_with

# A piece; edges of tiles, with more steps than stages; several tiles for a pair of blocks.
SIZES = [(1, 16, 8), (130, 272, 328), (300, 784, 72)]


@pytest.mark.parametrize("gated", [0, 1], ids=["gelu", "swiglu"])
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_epilogues_and_the_pass_give_the_activated_product(emulated: Any, eager: bool, gated: int) -> None:
    code, form = emulated("gemm_epilogue_fusion.cu"), form_of(gated)
    for m, n, k in SIZES:
        sizes = {"m": m, "n": n, "k": k, "gated": gated, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
        x, residual = call_with(bench.task.inputs, sizes).values()
        w, bias = call_with(bench.task.static, sizes).values()
        columns = columns_of(n, gated)
        expected = reference(x.double(), w.double(), bias.double(), residual.double(), gated).float()
        turns = in_turn(w, gated)
        for name in ("fused", "residual_ahead"):
            out = torch.full((m, columns), torch.nan, dtype=torch.bfloat16)
            maps = (
                code.box_map(x, (128, 64), 128),
                code.box_map(turns, (128, 64), 128),
                code.box_map(out, (64, 64), 128),
            )
            given = (*maps, in_turn(bias, gated), residual, m, len(turns), columns, k)
            code.launch(f"{name}_{form}", *given, cluster=2, eager=eager, threads=384, grid=(2, 1))
            assert (out.float() - expected).norm() < 5e-3 * expected.norm()
        y = (x.float() @ w.float().T).bfloat16()
        out = torch.full((m, columns), torch.nan, dtype=torch.bfloat16)
        code.launch(f"pass_{form}", out, y, bias, residual, columns, threads=256, grid=(m, 1))
        assert (out.float() - expected).norm() < 5e-3 * expected.norm()


def test_a_turn_has_rows_of_the_gate_and_the_same_of_up() -> None:
    rows = torch.arange(2 * 200)[:, None].expand(-1, 3) + 1
    turns = in_turn(rows, 1)
    assert turns.shape == (512, 3)
    assert turns[:, 0].tolist() == [
        *range(1, 129), *range(201, 329), *range(129, 201), *[0] * 56, *range(329, 401), *[0] * 56
    ]  # fmt: skip
