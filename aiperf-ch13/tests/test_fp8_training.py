"""Each way to scale keeps the directions of gradients; products are computed from the rounded operands on a CPU."""

from typing import Any

import pytest
import torch

from aiperf_ch13 import fp8_training
from aiperf_core.benchmark import call_with


def dequantised(narrow: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The values of a matrix in e4m3, with a scale for each of any blocks."""
    rows, columns = (size // count for size, count in zip(narrow.shape, scales.shape, strict=True))
    return narrow.float() * scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)


def product_on_a_cpu(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    assert a.is_contiguous()
    assert b.is_contiguous()
    return (dequantised(a, a_scale) @ dequantised(b, b_scale).t()).bfloat16()


def turn_of(code: type[fp8_training.Bf16], size: dict[str, Any]) -> float:
    task = fp8_training.bench.task
    size = {**task.presets["smoke"], **size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    drawn = call_with(task.inputs, size)
    right = call_with(fp8_training.reference, {name: value.double() for name, value in drawn.items()})
    return float(fp8_training.gradient_turn(call_with(code().compute, drawn), right))


@pytest.mark.parametrize("name", ["PerTensor", "PerRow", "WeightsInBf16", "PerBlock"])
def test_gradients_keep_their_direction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp8_training.PerTensor, "multiply", staticmethod(product_on_a_cpu))
    sizes = [{}] if name == "PerBlock" else [{}, *(fp8_training.bench.awkward_sizes or ())]
    for size in sizes:
        assert 1e-5 < turn_of(getattr(fp8_training, name), size) < 1 - 0.998


def test_scales_of_blocks_lie_column_by_column() -> None:
    narrow, scales = fp8_training.per_block(torch.randn(256, 384))
    assert narrow.stride() == (384, 1)
    assert scales.shape == (256, 3)
    assert scales.stride() == (1, 256)
    # Of a transposed matrix, which is not in rows.
    narrow, scales = fp8_training.per_block(torch.randn(384, 256).t())
    assert narrow.stride() == (384, 1)
    assert scales.stride() == (1, 256)


def test_operands_use_the_whole_range() -> None:
    matrix = torch.randn(64, 128)
    for narrow, _ in (fp8_training.per_tensor(matrix), fp8_training.per_row(matrix), fp8_training.per_block(matrix)):
        assert float(narrow.float().abs().max()) == fp8_training.LARGEST
