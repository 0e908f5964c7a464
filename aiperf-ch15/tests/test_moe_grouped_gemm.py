"""The forms that need a GPU are right where it can be tested without one; `pytest --aiperf` tests the others."""

from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch15 import moe_grouped_gemm
from aiperf_core.benchmark import call_with
from aiperf_core.testing import interpreted

SIZES: dict[str, Any] = {"tokens": 96, "experts": 7, "chosen": 3, "width": 64, "hidden": 48, "bits": 16, "skew": 1.0}


def drawn(**sizes: Any) -> dict[str, Any]:
    draw = {**SIZES, **sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    task = moe_grouped_gemm.bench.task
    assert task.static is not None
    return {**draw, **call_with(task.static, draw), **call_with(task.inputs, draw)}


def error(out: torch.Tensor, right: torch.Tensor) -> float:
    return float((out.double() - right.double()).norm() / right.double().norm())


def test_the_kernels_are_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_experts.py")) == "the experts are right\n"


@pytest.mark.parametrize("sizes", [{}, {"tokens": 1}, {"experts": 67, "tokens": 2}])
def test_padded_and_grouped_are_the_experts_one_by_one(sizes: dict[str, Any]) -> None:
    given = drawn(**sizes)
    right = call_with(moe_grouped_gemm.one_by_one, given)
    assert error(call_with(moe_grouped_gemm.padded, given), right) < 1e-2
    assert error(call_with(moe_grouped_gemm.Grouped().run, given), right) < 1e-2


@pytest.mark.parametrize(("damage", "within"), [(1.0, True), (1.1, False)])
def test_eight_bits_keep_their_budget_and_a_wrong_scale_does_not(damage: float, within: bool) -> None:
    class Emulated(moe_grouped_gemm.Fp8):
        def product(self, left: Any, right: Any, left_scale: Any, right_scale: Any, ends: Any) -> Any:
            assert right.stride(1) == 1  # the columns lie one after the other, as the library requires
            left, right = left.float() * left_scale[:, None] * damage, right.float() * right_scale[:, None]
            parts = zip([0, *ends.tolist()], ends.tolist(), right, strict=False)
            return torch.cat([left[begin:end] @ one for begin, end, one in parts]).bfloat16()

    given = drawn(tokens=512, width=256, hidden=128)
    emulated = Emulated()
    call_with(emulated.prepare, given)
    (declared,) = (one for one in moe_grouped_gemm.bench.implementations_on("cuda") if one.name == "fp8")
    assert declared.lossy is not None
    right = moe_grouped_gemm.bench.answer(
        SIZES, {name: given[name] for name in ("x", "routes", "shares", "gate_up", "down")}
    )
    found = error(call_with(emulated.run, given), right)
    assert (found <= declared.lossy.budget) == within, found


def test_the_cost_counts_no_expert_that_is_not_read() -> None:
    sizes = {**SIZES, "tokens": 4, "experts": 64, "chosen": 4, "skew": 0.5}
    active = [len(drawn(**sizes)["routes"].unique())]
    weights = 2 * 3 * SIZES["width"] * SIZES["hidden"]
    assert moe_grouped_gemm.bench.work(sizes).bytes_read / weights < 1.1 * active[0]


@pytest.mark.parametrize(
    ("preset", "mean", "padding", "flops_a_byte"),
    [("cuda", 384, 2.1, 370), ("decode", 6, 2.5, 6), ("cpu", 32, 1.8, 16)],
)
def test_padding_and_operations_a_byte_are_as_predicted(
    preset: str, mean: int, padding: float, flops_a_byte: float
) -> None:
    sizes = {**moe_grouped_gemm.bench.task.presets[preset], "width": 1, "dtype": torch.float32, "device": "cpu"}
    routes = call_with(moe_grouped_gemm.bench.task.inputs, {**sizes, "generator": torch.Generator().manual_seed(1)})[
        "routes"
    ]
    tokens = torch.bincount(routes.flatten(), minlength=int(sizes["experts"])).double()
    assert float(tokens.mean()) == mean
    assert float(tokens.max()) / mean == pytest.approx(padding, rel=0.2)
    work = moe_grouped_gemm.bench.work(moe_grouped_gemm.bench.task.presets[preset])
    assert work.flops / (work.bytes_read + work.bytes_written) == pytest.approx(flops_a_byte, rel=0.03)
