"""Mechanisms that need a GPU give the same step; conformance tests those of the processor."""

from typing import Any

import pytest
import torch

from aiperf_ch13 import train_step_stack
from aiperf_ch13.train_step_stack import Eager, Flags
from aiperf_core.benchmark import bind, call_with

SIZE = {"steps": 3, "blocks": 2, "width": 42, "heads": 3, "batch": 2, "length": 13, "vocabulary": 67, "bits": 16}


def output_of(flags: Flags) -> dict[str, torch.Tensor]:
    """What a call returns, with inputs drawn from the same seed, after a call that `prepare` may have made."""
    task = train_step_stack.bench.task
    drawn = call_with(task.inputs, {**SIZE, "device": "cpu", "generator": torch.Generator().manual_seed(1)})
    instance = Eager()
    instance.flags = flags
    before = {name: value.clone() for name, value in drawn.items()}
    given = {**SIZE, **drawn, "dtype": torch.bfloat16}
    call_with(instance.prepare, given)
    for name, value in before.items():
        given[name].copy_(value)
    output: dict[str, torch.Tensor] = bind(instance.run, given)()
    return {name: value.clone() for name, value in output.items()}


class Replayed:
    """A graph of a machine without a GPU: a replay calls the step again, on the inputs of the capture."""

    def __init__(self, run: Any, *arguments: Any) -> None:
        self.replay = lambda: run(*arguments)
        self.replay()


def difference(flags: Flags) -> float:
    """The largest error of an output, relative to that of eager execution."""
    right, output = output_of(Flags()), output_of(flags)
    return max(float((output[name] - value).norm() / value.norm()) for name, value in right.items())


@pytest.mark.parametrize(
    "names", [("one_buffer",), ("fused", "one_buffer"), ("graph",), ("fused", "graph", "one_buffer")]
)
def test_each_mechanism_is_the_same_step(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_step_stack, "captured", Replayed)
    assert difference(Flags(**dict.fromkeys(names, True))) < 1e-5


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the compiler imports
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # which the compiler reads of each input
def test_a_compiled_step_is_right() -> None:
    assert difference(Flags(compiled=True)) < 1e-2
