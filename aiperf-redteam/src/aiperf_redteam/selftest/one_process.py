"""A harness of one process: workload, reference, comparison, clock, statistics, baseline and the tested code.

Many harnesses are made so. This one shows what the guard `own_process` is good for, and is careful in all else: values
are new for every sample, every output is compared, both sides take turns, medians decide. It is made of the parts that
the harness itself is made of, which are looked up by name when they are used, as Python code does. On a GPU it writes
twice the L2 before every call, as many do, and asks the GPU for the time.
"""

import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from aiperf_core import pytree
from aiperf_core.benchmark import Implementation, bind, call_with
from aiperf_core.described import TargetRef
from aiperf_core.devices import cpu, timing
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.service import Service
from aiperf_core.loading import load_benchmark
from aiperf_core.precision import set_float32_precision
from aiperf_core.validity import output_check

SAMPLES, WARM_UPS = 12, 2
# Calls that take less are timed several in a row.
SHORT_S, CALLS = 0.001, 4
# So many times the L2 is written before a call on a GPU.
OVER = 2


class Side:
    """The baseline, or the code under test."""

    def __init__(self, code: Implementation, arguments: dict[str, Any], static: dict[str, Any]) -> None:
        self.times: list[float] = []
        self.static = static
        self.run: Callable[..., Any] = code.code
        if code.is_class:
            instance = code.code()
            if hasattr(instance, "prepare"):
                call_with(instance.prepare, {**arguments, **static})
            self.run = instance.run


class Gpu:
    """Time of a call on the GPU when the cache was written over before it."""

    def __init__(self) -> None:
        from aiperf_core.devices.cuda import CudaDevice

        self.device = CudaDevice()
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self.scratch = torch.empty(OVER * l2_bytes, dtype=torch.uint8, device="cuda")

    def timed(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """The result of a call and its seconds."""
        self.scratch.zero_()
        timed = self.device.time(call, "device")
        return timed.result, timed.device_s or 0.0


class OneProcess(Service):
    """The handler of requests. Once forked, all that is measured happens in this process."""

    def do_measure(self, target: Message, device: str, params: dict[str, float], implementation: str) -> Message:
        """Measure an implementation beside the baseline.

        Return the median time of each in seconds, and what is wrong with the implementation's output; None if it is
        right.
        """
        cpu.keep_freed_memory()
        set_float32_precision("highest")
        self.benchmark, self.device, self.params = load_benchmark(TargetRef(**target)), device, params
        here = {code.name: code for code in self.benchmark.implementations_on(device)}
        baseline = next(code for code in here.values() if code.role == "baseline")
        self.calls = 1
        self.gpu = Gpu() if device == "cuda" else None
        sides = [Side(code, self.values(), self.static()) for code in (baseline, here[implementation])]
        for number in range(-WARM_UPS, SAMPLES):
            for side in sides:
                wrong = self.sample(side, counted=number >= 0)
                if wrong and side is sides[1]:
                    return {"wrong": wrong}
        medians = [statistics.median(side.times) for side in sides]
        return {"wrong": None, "baseline_s": medians[0], "variant_s": medians[1]}

    def sample(self, side: Side, *, counted: bool) -> str | None:
        """Time some calls on refreshed inputs; return what is wrong with the last output."""
        values = {**self.values(), **side.static}
        expected = pytree.mapped(self.benchmark.answer(self.params, values), _wide)
        call = timing.in_a_row(bind(side.run, values), self.calls)
        if self.gpu is None:
            started = time.perf_counter()
            out = call()
            taken = time.perf_counter() - started
        else:
            out, taken = self.gpu.timed(call)
        if counted:
            side.times.append(taken / self.calls)
        elif taken < SHORT_S and self.gpu is None:
            self.calls = CALLS
        return self.compared(out, expected)

    def compared(self, out: Any, expected: Any) -> str | None:
        """Message about a wrong output; None where it is right."""
        tolerance = self.benchmark.tolerance_at(self.params)
        shape = pytree.describe(expected, pytree.Layout())
        for (path, node, leaf), (_, _, right) in zip(
            pytree.pairs(shape, out), pytree.pairs(shape, expected), strict=True
        ):
            comparison = output_check.compare_leaf(path, node, leaf, right, tolerance)
            if comparison.error:
                return comparison.error
        return None

    def values(self) -> dict[str, Any]:
        """Inputs that are new in a call, of an unknown seed, and sizes."""
        return {**self.params, **self._drawn(self.benchmark.task.inputs, secrets.randbits(62))}

    def static(self) -> dict[str, Any]:
        """Inputs that stay the same for all calls."""
        draw = self.benchmark.task.static
        return self._drawn(draw, 1) if draw else {}

    def _drawn(self, draw: Callable[..., dict[str, Any]], seed: int) -> dict[str, Any]:
        generator = torch.Generator(self.device).manual_seed(seed)
        return dict(call_with(draw, {**self.params, "device": self.device, "generator": generator}))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """The same in memory of its own, a floating-point tensor in float64."""
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def main(channel: Channel) -> None:
    """Serve the prover, which shows that this is no way to measure."""
    OneProcess(channel).serve()
