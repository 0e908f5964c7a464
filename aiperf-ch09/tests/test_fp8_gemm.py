"""The kernels of the product in e4m3, on the host, and the rounding of its operands."""

from typing import Any

import pytest
import torch

from aiperf_ch09.fp8_gemm import FP8, bench, quantised, worst_row
from aiperf_core.benchmark import call_with

# A row; more steps than stages, with edges of tiles and blocks; several tiles for a pair of blocks.
SIZES = [(1, 8, 16), (130, 264, 912), (300, 264, 144)]


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_every_kernel_gives_the_product_of_its_operands(emulated: Any, eager: bool) -> None:
    code = emulated("fp8_gemm.cu")
    for m, n, k in SIZES:
        given = call_with(
            bench.task.inputs, {"m": m, "n": n, "k": k, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
        )
        for form, columns in (("tensor", 256), ("row", 256), ("block", 128)):
            x, w = given[f"x_{form}"], given[f"w_{form}"]
            maps = code.box_map(x, (128, 128), 128), code.box_map(w, (columns // 2, 128), 128)
            out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
            scales = given[f"x_{form}_scales"], given[f"w_{form}_scales"]
            to = code.box_map(out, (64, 64), 128)
            how = {"cluster": 2, "eager": eager, "threads": 384, "grid": (2, 1)}
            code.launch(f"per_{form}", *maps, to, *scales, m, n, k, **how)
            left, right = dequantised(x, scales[0].t()), dequantised(w, scales[1])
            expected = left @ right.T
            assert worst_row(out, expected) < 5e-3


def dequantised(narrow: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The numbers that bytes and scales stand for."""
    rows, columns = narrow.shape
    down, across = scales.shape
    # A scale stands for 128, or for all.
    high = {1: rows, rows: 1}.get(down, 128)
    wide = {1: columns}.get(across, 128)
    spread = scales.double().repeat_interleave(high, 0)[:rows].repeat_interleave(wide, 1)[:, :columns]
    return narrow.view(FP8).double() * spread


def test_scales_of_rows_keep_rows_apart_that_a_scale_of_a_tensor_does_not() -> None:
    given = call_with(
        bench.task.inputs, {"m": 64, "n": 64, "k": 1024, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    )
    right = given["x"].double() @ given["w"].double().T
    errors = {
        form: worst_row(
            dequantised(given[f"x_{form}"], given[f"x_{form}_scales"].t())
            @ dequantised(given[f"w_{form}"], given[f"w_{form}_scales"]).T,
            right,
        )
        for form in ("tensor", "row", "block")
    }
    assert 0.06 < errors["tensor"] < 0.2
    assert 0.02 < errors["row"] < 0.06
    assert 0.02 < errors["block"] < 0.06


def test_a_matrix_of_zeros_has_scales_that_divide() -> None:
    narrow, scales = quantised(torch.zeros(3, 5), 1, 5)
    assert not narrow.any()
    assert (scales > 0).all()
