"""A worker: one process that runs one implementation and times its calls.

It is told what to run and where its inputs lie. It is not told seeds, the reference, the tolerance, or which of its samples
will be judged: that question comes after the clock has stopped.
"""

import gc
import math
import os
import random
from typing import Any

import torch
from attrs import asdict

from aiperf_core.benchmark import Implementation, bind, call_with, load_benchmark
from aiperf_core.devices.timing import open_device
from aiperf_core.harness import arena, tree
from aiperf_core.harness.channel import Channel, Message
from aiperf_core.harness.described import TargetRef
from aiperf_core.harness.service import ContractError, Service

_POISON = 0xFF  # NaN in every floating-point format, -1 in signed integers
_WINDOW_WORDS = 1 << 21
# So many calls are queued before waiting for them, where calls follow each other without pause.
_STEADY_CALLS = 8


class Worker(Service):
    """The handler of a worker's requests."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._output: Any = None
        self._place = 0.0
        self._print: list[int] = []

    def do_begin(
        self, target: Message, implementation: str, device: str, processors: list[int], off: list[str]
    ) -> None:
        """Import the benchmark, find the implementation and wake the device; all that takes no data.

        `off` names guards of the worker's that are switched off.
        """
        self._off = frozenset(off)
        if processors:  # before torch makes its threads, which inherit this
            os.sched_setaffinity(0, processors)
            torch.set_num_threads(len(processors))
        self._code = _find(load_benchmark(TargetRef(**target)).on(device), implementation)
        if device == "cuda":
            torch.zeros(1, device=device)

    def do_open(self, problem: Message, fds: tuple[int, ...] = ()) -> None:
        """Map the inputs and make ready to time."""
        self._problem = problem
        inputs_fd, outputs_fd = fds or (None, None)
        self._inputs = arena.attach(problem["inputs_arena"], inputs_fd)
        self._outputs = arena.attach(problem["outputs_arena"], outputs_fd)
        self._device = open_device(
            problem["device"], problem["working_set_bytes"], all_streams="all_streams" not in self._off
        )
        self._arguments = {
            **problem["params"],
            **tree.build(problem["inputs"], self._inputs),
            **tree.build(problem["static"], self._inputs),
        }

    def do_prepare(self) -> Message:
        """Run the implementation's untimed preparation; return how long it took."""
        timed = self._device.time(self._prepare, "wall")
        gc.collect()
        self._device.reset_memory()
        return {"prepare_s": timed.wall_s}

    def _prepare(self) -> None:
        if not self._code.is_class:
            self._run = self._code.code
            return
        instance = self._code.code()
        if hasattr(instance, "prepare"):
            call_with(instance.prepare, self._arguments)
        self._run = instance.run

    def do_sample(self, clock: str, numbers: Message, flush: bool, calls: int) -> Message:
        """Time a sample, of so many calls, on the values that now lie in the inputs."""
        if "poison" not in self._off:
            self._poison()
        self._arguments.update(numbers)
        call = bind(self._run, self._arguments)
        if calls > 1:  # the first of calls in a row has no call before it
            call()
        if flush:
            self._device.flush()
        if "gc_paused" not in self._off:
            gc.disable()
        try:
            self._device.make_ready()
            self.notify("start")
            timed = self._device.time(call, clock, calls)
            self.notify("stop")
        finally:
            gc.enable()
        self._output = timed.result
        self._place = random.random()
        if "judged_output" not in self._off:
            self._print = self._fingerprint(self._place)
        return {
            "device_s": timed.device_s,
            "wall_s": timed.wall_s,
            "cpu_s": timed.cpu_s,
            "hidden": timed.hidden,
            "voluntary_switches": timed.voluntary_switches,
            "involuntary_switches": timed.involuntary_switches,
        }

    def do_output(self) -> Message:
        """Copy the last call's output to the judge's memory, after checking its form.

        `late` says whether it changed since the clock stopped.
        """
        shape = self._problem["output"]
        tree.match(shape, self._output, self._device.name)
        numbers = {}
        with torch.no_grad():
            for path, node, leaf in tree.pairs(shape, self._output):
                if node["type"] == "tensor":
                    tree.view(node, self._outputs).copy_(leaf)
                elif node["type"] == "number" and math.isfinite(leaf):
                    # NaN and infinities are no JSON; to the judge a number that is missing is wrong.
                    numbers[path] = leaf
        self._device.synchronize()
        return {"numbers": numbers, "late": self._fingerprint(self._place) != self._print}

    def do_start_audit(self) -> None:
        """Start CUPTI, which takes seconds, while others may do the same. Only on a GPU."""
        from aiperf_core.devices.cuda import CudaDevice
        from aiperf_core.devices.ledger import start

        assert isinstance(self._device, CudaDevice)
        start(self._device)

    def do_audit(self, calls: int, flush: bool) -> Message:
        """Run some calls under CUPTI; see `devices.ledger.audit`. Only on a GPU."""
        from aiperf_core.devices.cuda import CudaDevice
        from aiperf_core.devices.ledger import audit

        assert isinstance(self._device, CudaDevice)
        self._poison()
        return audit(self._device, bind(self._run, self._arguments), calls, flush=flush)

    def do_probe_flush(self) -> Message | None:
        """See what a flush does in this process; seconds of a read, or None where nothing has to be flushed."""
        found = self._device.probe_flush()
        return asdict(found) if found else None

    def do_steady(self, calls: int) -> None:
        """Make so many calls without a pause, for a clock outside of this process."""
        call = bind(self._run, self._arguments)
        self._device.make_ready()
        self.notify("start")
        for first in range(0, calls, _STEADY_CALLS):
            for _ in range(min(_STEADY_CALLS, calls - first)):
                self._output = call()
            self._device.synchronize()
        self.notify("stop")

    def do_memory(self) -> Message:
        """Memory used since `prepare`."""
        return asdict(self._device.memory())

    def _poison(self) -> None:
        """Overwrite the last output and let go of it.

        A buffer that the implementation keeps then holds NaN; one that it does not keep goes back to the allocator,
        which hands it out for the next output. Memory of the harness is left alone: the judge renews it.
        """
        for one in tree.tensors(self._output):
            storage = one.untyped_storage()
            if storage.data_ptr() in (self._inputs.data_ptr(), self._outputs.data_ptr()):
                continue
            with torch.inference_mode():
                torch.empty(0, dtype=torch.uint8, device=one.device).set_(storage).fill_(_POISON)
        self._output = None
        self._device.synchronize()

    def _fingerprint(self, place: float) -> list[int]:
        """Sums over the bits of the output's tensors: what they hold now.

        Of a large tensor on the processor only a window is read, which lies at `place` between 0 and 1; a sum over all
        of it could take longer than the call.
        """
        prints = []
        for one in tree.tensors(self._output):
            if type(one) not in (torch.Tensor, torch.nn.Parameter) or one.layout is not torch.strided:
                raise ContractError(f"the output holds {tree.summary(one)}; accepted are plain dense tensors")
            storage = one.untyped_storage()
            count = storage.nbytes() // 8
            window = count if self._device.name == "cuda" else min(count, _WINDOW_WORDS)
            words = torch.empty(0, dtype=torch.int64, device=one.device)
            words = words.set_(storage, int(place * (count - window)), (window,), (1,))
            prints.append(int(words.sum()))
        return prints


def _find(implementations: list[Implementation], name: str) -> Implementation:
    return next(one for one in implementations if one.name == name)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Worker(channel).serve()
