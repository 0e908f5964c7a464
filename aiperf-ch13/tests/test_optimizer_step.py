"""Moments of few bits are right at every size, and stochastic rounding has no drift."""

from pathlib import Path

import pytest
import torch

from aiperf_ch13 import optimizer_step
from aiperf_core.benchmark import call_with
from aiperf_core.testing import interpreted


def test_the_kernels_are_right_when_interpreted() -> None:
    script = Path(__file__).with_name("interpreted_optimizer.py")
    assert interpreted(script) == "moments of 16 and 8 bits are right\n"


@pytest.mark.parametrize("code", [optimizer_step.Foreach, optimizer_step.OneTensor])
def test_the_steps_of_a_graph_are_right(code: type[optimizer_step.ForLoop]) -> None:
    task = optimizer_step.bench.task
    size = {**task.presets["smoke"], "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    given = {**size, **call_with(task.inputs, size)}
    right = call_with(
        optimizer_step.reference, {**size, **{name: given[name].double() for name in given if name not in size}}
    )
    instance = code()
    call_with(instance.prepare, given)
    assert optimizer_step.update_error(call_with(instance.run, given), right) < 1e-6
