"""Each precision takes the same step on a CPU, within its budget, and float16 needs its loss scale."""

import pytest
import torch

from aiperf_ch13 import mixed_precision
from aiperf_core.benchmark import call_with

SIZES = [mixed_precision.bench.task.presets["smoke"], *(mixed_precision.bench.awkward_sizes or ())]


def error_of(code: type[mixed_precision.Step], changed: dict[str, float]) -> float:
    """The largest relative error of a momentum or a weight."""
    task = mixed_precision.bench.task
    size = {**task.presets["smoke"], **changed}
    drawn = call_with(task.inputs, {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)})
    wide = {
        name: [one.double() for one in value] if isinstance(value, list) else value.double()
        for name, value in drawn.items()
    }
    right = call_with(mixed_precision.reference, {**size, **wide})
    instance = code()
    call_with(instance.prepare, {**size, **drawn})
    output = call_with(instance.run, drawn)
    moved = mixed_precision.gradient_error({"momenta": output["weights"]}, {"momenta": right["weights"]})
    return float(max(moved, mixed_precision.gradient_error(output, right)))


@pytest.mark.parametrize("changed", SIZES)
@pytest.mark.parametrize(
    ("name", "most"),
    [("Tf32", 5e-3), ("Strict", 1e-5), ("Autocast", 4e-2), ("PureBf16", 5e-2), ("ScaledFp16", 1e-2)],
)
def test_each_step_is_right(name: str, most: float, changed: dict[str, float]) -> None:
    assert error_of(getattr(mixed_precision, name), changed) < most


def test_gradients_in_float16_need_a_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    size: dict[str, float] = {"blocks": 1, "width": 512, "hidden": 64, "tokens": 4096}
    scaled = error_of(mixed_precision.ScaledFp16, size)
    monkeypatch.setattr(mixed_precision, "SCALE", 1.0)
    assert error_of(mixed_precision.ScaledFp16, size) > 5 * scaled
