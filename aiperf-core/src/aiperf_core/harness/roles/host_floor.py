"""The host floor: the time of an implementation on the smallest tensors, which leave the host's work alone."""

import gc
import time
from typing import Any

import torch
from attrs import define

from aiperf_core import pytree
from aiperf_core.benchmark import Benchmark, Implementation, call_with
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.harness.roles.measured_code import MeasuredCode

# Calls that are not timed, the least and the most that are, and for about how long they are taken.
_WARM, LEAST, _MOST, _LASTING_S = 3, 7, 51, 0.25
# Draws all values; nothing is verified at these sizes in a run, conformance tests do that.
_SEED = 0


@define(eq=False)
class HostFloor:
    """An implementation at the sizes of the floor.

    params: all sizes.
    torch_device: what torch calls the device.
    """

    benchmark: Benchmark
    params: dict[str, float]
    torch_device: str

    def times_s(self, implementation: Implementation, device: TimingDevice) -> list[float]:
        """Prepare the implementation and time its calls by the wall clock, in seconds, each on refreshed inputs."""
        task, generator = self.benchmark.task, torch.Generator(self.torch_device).manual_seed(_SEED)
        inputs = self._drawn(task.inputs, generator)
        static = self._drawn(task.static, generator) if task.static else {}
        code = MeasuredCode({**self.params, **inputs, **static}, None)
        code.prepare(implementation)
        times: list[float] = []
        until = time.monotonic() + _LASTING_S
        for number in range(_WARM + _MOST):
            if len(times) >= LEAST and time.monotonic() >= until:
                break
            call = code.call(_renew(inputs, self._drawn(task.inputs, generator)))
            device.make_ready()
            gc.disable()
            try:
                taken = device.time(call, "wall").wall_s
            finally:
                gc.enable()
            if number >= _WARM and taken is not None:
                times.append(taken)
        return times

    def _drawn(self, draw: Any, generator: torch.Generator) -> dict[str, Any]:
        values: dict[str, Any] = call_with(draw, {**self.params, "device": self.torch_device, "generator": generator})
        return values


def _renew(inputs: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """Refresh the tensors of the inputs, which stay in place; return the inputs that are numbers."""
    with torch.no_grad():
        for place, value in zip(pytree.tensors(inputs), pytree.tensors(fresh), strict=True):
            place.copy_(value)
    return {name: value for name, value in fresh.items() if isinstance(value, int | float)}
