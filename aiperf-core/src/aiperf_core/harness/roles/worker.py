"""A worker: one process that runs one implementation and times its calls.

It knows what to run and where its inputs lie. It does not know seeds, the reference, the tolerance, or which samples
will be judged: the judge decides that after the clock has stopped.
"""

import contextlib
import gc
import math
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import asdict

from aiperf_core import pytree
from aiperf_core.benchmark import Implementation, bind, call_with
from aiperf_core.described import TargetRef
from aiperf_core.devices import shared_buffers
from aiperf_core.devices.cpu import give_back_freed_memory, keep_freed_memory, reset_peak_rss, wall_of
from aiperf_core.devices.device import Device
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.timing import Timed
from aiperf_core.errors import ContractError
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.process_state import digest_code, objects, snapshot
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.roles import rank
from aiperf_core.harness.roles.describer import describe
from aiperf_core.loading import load_benchmark
from aiperf_core.measurements import Memory
from aiperf_core.precision import set_float32_precision
from aiperf_core.serving import at_desk

_POISON = 0xFF  # NaN in every floating-point format, -1 in signed integers
# A smaller output is overwritten by a single thread: torch's threads would wait for each other at a barrier.
_SMALL_BYTES = 4 << 20
_WINDOW_WORDS = 1 << 21
# Calls that are queued before a wait, where calls follow each other without a pause.
_STEADY_CALLS = 8


def before_forks() -> None:
    """Digest the harness's code once, in the process from which the workers are forked."""
    digest_code()


class Worker(Service):
    """The handler of a worker's requests."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._output: Any = None
        self._place = 0.0
        self._print: list[int] = []
        self._queued_sums: list[Any] | None = None
        self._first_used: Memory | None = None

    def do_begin(
        self,
        target: Message,
        implementation: str,
        device: Message,
        processors: list[int],
        off: list[str],
        candidate: Message | None,
    ) -> Message:
        """Import the code and wake the device: everything that needs no data.

        device: the fields of a `Device`.
        processors: those to run on; none for all.
        off: guards that are switched off.
        candidate: the code of an untrusted candidate and its folder; None for trusted code.

        Return a snapshot of this process from before the import, what the benchmark declares here, and the confinement
        of a candidate.
        """
        self._off = frozenset(off)
        if processors:  # before torch makes its threads, which inherit this
            os.sched_setaffinity(0, processors)
            torch.set_num_threads(len(processors))
        self._candidate, self._kind = candidate, Device(**device).resolve()
        confined = self._confine(candidate, device["name"]) if candidate and "sandbox" not in self._off else None
        set_float32_precision("highest")
        rank.join(self._kind)
        self._kind.preload()
        before, declared = snapshot(), None
        if not candidate:
            # The benchmark's module holds the reference and the tolerance: a candidate's process never imports it.
            benchmark = load_benchmark(TargetRef(**target))
            declared = asdict(describe(benchmark, target["module"]))
            self._code = next(one for one in benchmark.implementations_on(device["name"]) if one.name == implementation)
        self._kind.wake()
        return {"confined": confined, "state": before, "declared": declared}

    def _confine(self, candidate: Message, device: str) -> Message:
        from aiperf_core.harness.isolation.sandbox import Limits, confine

        scratch, left_out = Path(candidate["scratch"]), tuple(candidate["without"])
        held = confine(Limits(scratch, (self._channel.fileno(),), cuda=device == "cuda", without=left_out))
        return {"applied": list(held.applied), "lacking": held.lacking}

    def do_open(self, problem: Message, fds: tuple[int, ...] = ()) -> Message:
        """Map the inputs and get ready to time; return the harness's objects before a candidate's code runs."""
        self._problem = problem
        inputs_fd, outputs_fd, *page_fd = fds or (None, None)
        self._page = ObservedPage(page_fd[0]) if page_fd else None
        self._data = shared_buffers.attach_inputs(problem["inputs_buffers"][0], inputs_fd, self._kind)
        self._inputs = self._data.bytes
        self._outputs = shared_buffers.attach(problem["outputs_buffers"][0], outputs_fd, self._kind)
        if problem["flush_bound"] is not None:
            self._kind.flush_bound = FlushBound(**problem["flush_bound"])
        self._device = self._kind.open(problem["working_set_bytes"], all_streams="all_streams" not in self._off)
        self._arguments = {
            **problem["params"],
            **({"folder": problem["folder"]} if problem.get("folder") else {}),
            **problem.get("files", {}),
            **pytree.build(problem["inputs"], self._inputs),
            **pytree.build(problem["static"], self._inputs),
        }
        given = self._arguments
        self._arguments, self._desk = at_desk(problem.get("served", ()), given)
        self._given = given if self._desk else self._arguments
        before = objects(self, self._channel, self._device)
        if self._candidate:
            from aiperf_core.harness.isolation.candidate import load_candidate

            text, load, entry = (self._candidate[name] for name in ("text", "load", "entry"))
            code = load_candidate(text, load, entry, list(problem["inputs"]["items"]))
            self._code = Implementation("candidate", "variant", problem["device"], code, "")
        return before

    def do_prepare(self) -> Message:
        """Run the implementation's untimed preparation; return how long it took."""
        if self._kind.fingerprints:  # else the kernels of sums would be loaded behind a call that is held back
            for words in (1, _WINDOW_WORDS):
                int(torch.zeros(words, dtype=torch.int64, device=self._kind.torch_device).sum())
        give_back_freed_memory()
        timed = self._device.time(self._prepare, "wall")
        gc.collect()
        if self._flushes:  # its memory does not count as the implementation's
            self._device.flush()
        self._device.reset_memory()
        return {"prepare_s": timed.wall_s}

    def _prepare(self) -> None:
        if self._code.is_class:
            self._instance = self._code.code()
            if hasattr(self._instance, "prepare"):
                call_with(self._instance.prepare, self._arguments)
            self._run = self._instance.run
        else:
            self._run = self._code.code
        self._names = tuple(bind(self._run, self._arguments).keywords)

    def do_ready(self) -> None:
        """Remove traces of the last call: poison and release its output, release persisting cache lines."""
        if "poison" not in self._off:
            self._poison()
        if "cold_cache" not in self._off:
            self._device.release_cache()

    def do_sample(self, clock: str, numbers: Message, calls: int, deliver: bool, fingerprinted: bool) -> Message:
        """Time a sample on the values that now lie in the inputs.

        clock: `device` or `wall`.
        numbers: the inputs that are numbers.
        calls: in the sample.
        deliver: whether the output is copied to the judge's memory before the reply. A notice tells when that begins.
        fingerprinted: whether a fingerprint of the output is queued behind the clock's stop. By the wall clock, which
            has stopped by then, every sample of a device that can has one.
        """
        self._fetch_inputs()
        if self._first_used is None:  # again: the kernel may have taken pages from a process that waits
            give_back_freed_memory()
            self._device.reset_memory()
        call = self._call(numbers)
        if calls > 1:  # the first of calls in a row has no call before it
            call()
        self._place, self._queued_sums = random.random(), None
        # A served or deferred benchmark has its output only later.
        queues = (
            (fingerprinted or (clock == "wall" and self._kind.fingerprints))
            and self._desk is None
            and not self._problem.get("deferred")
        )
        time: Callable[..., Timed] = self._device.time
        if queues:
            time = partial(time, fingerprint=self._queue_fingerprint)
        if "gc_paused" not in self._off:
            gc.disable()
        try:
            self._device.make_ready()
            rank.meet()
            self.notify("start")
            timed = time(call, clock, calls, rank.align)
            self.notify("stop")
        finally:
            gc.enable()
        beside: dict[str, float] = {"minor_faults": timed.minor_faults / calls}
        if self._problem.get("deferred"):
            # Here, because a process that is not asked anything is stopped.
            finish_s = wall_of(self._instance.finish)
            if timed.wall_s is not None:
                beside["until_done_s"] = timed.wall_s + finish_s
        else:
            self._output = timed.result
        if self._first_used is None:  # before the harness touches more memory of its own
            self._first_used = self._device.memory()
            keep_freed_memory()
        if self._desk is not None:  # answers count when they lie in the host's memory, and are judged on the device
            self._output = pytree.mapped(self._output, lambda one: one.to(self._kind.torch_device))
        self._data.hand_back()
        if "judged_output" not in self._off:
            self._print = _read(self._queued_sums) if self._queued_sums is not None else self._fingerprint(self._place)
        if deliver:
            self.notify("fingerprinted")
        return {
            **_told(timed),
            "beside": beside,
            "latencies_s": self._desk.latencies_s if self._desk is not None else [],
            "output": self.do_output() if deliver else None,
        }

    def do_observed_sample(self) -> Message:
        """Make the call of a sample that an observer times, once the observer has released its inputs.

        The sample ends when the whole output lies in the judge's memory. Of untrusted code nothing in the reply decides
        a time; what the process says of the baseline's call shows how long the harness itself takes in a sample.
        """
        page = self._page
        assert page is not None
        if self._first_used is None:
            give_back_freed_memory()
            self._device.reset_memory()
        if "gc_paused" not in self._off:
            gc.disable()
        try:
            self._device.make_ready()
            last = page.number
            self.notify("ready")
            number = page.wait(last)
            try:
                timed = self._device.time(self._call(page.numbers()), "wall")
                self._output = timed.result
                page.end(number, self._copy_output())
            except BaseException:
                page.end(number, {})
                raise
            self.notify("ended")
        finally:
            gc.enable()
        if self._first_used is None:
            self._first_used = self._device.memory()
            keep_freed_memory()
        return {
            **_told(timed),
            "beside": {"minor_faults": timed.minor_faults},
            "output": {"numbers": {}, "late": False, "aliases": self._aliases()},
        }

    def do_open_batch(self, calls: int, buffers: list[Message], fds: tuple[int, ...] = ()) -> None:
        """Map the values and the outputs of calls in a row."""
        held = fds or (None, None)
        mapped = [shared_buffers.attach(one, fd, self._kind) for one, fd in zip(buffers, held, strict=True)]
        values, outputs = (one.split(one.numel() // calls) for one in mapped)
        nodes = list(pytree.tensors_of(self._problem["inputs"]))
        self._batch = [
            ([(pytree.view(node, self._inputs), pytree.view(node, own)) for node in nodes], out)
            for own, out in zip(values, outputs, strict=True)
        ]

    def do_batch(self, numbers: list[Message]) -> list[dict[str, float]]:
        """Make calls in a row, each on values of its own; the numbers in each output.

        Code may have kept the addresses of its inputs, as a captured graph does, so the values are copied there. All
        outputs lie in the judge's memory with the answer.
        """
        told = []
        for (inputs, outputs), own in zip(self._batch, numbers, strict=True):
            with torch.no_grad():
                for place, values in inputs:
                    place.copy_(values)
            self._output = self._call(own)()
            told.append(self._deliver(self._output, outputs))
        self._device.synchronize()
        return told

    def _fetch_inputs(self) -> None:
        """Copy the judge's values to the device where it cannot write there itself; leave the caches as declared."""
        if self._data.in_process:
            self._data.fetch()
        if self._flushes:
            self._device.flush()

    @property
    def _flushes(self) -> bool:
        """Whether this process flushes the cache; elsewhere the judge does."""
        return bool(self._data.in_process and self._problem["cold"])

    def do_output(self) -> Message:
        """Check the form of the last call's output and copy it to the judge's memory.

        `late` in the answer: whether the output changed after the clock had stopped.
        """
        if self._problem.get("deferred"):
            self._output = self._instance.output()
            self._print = self._fingerprint(self._place)
        numbers = self._copy_output()
        late = self._fingerprint(self._place) != self._print
        return {"numbers": numbers, "late": late, "aliases": self._aliases()}

    def _copy_output(self) -> dict[str, float]:
        """Check the form of the last call's output and copy it to the judge's memory; return its numbers."""
        numbers = self._deliver(self._output, self._outputs)
        self._device.synchronize()
        return numbers

    def _deliver(self, output: Any, memory: torch.Tensor) -> dict[str, float]:
        """Check the form of an output and start to copy it to memory of the judge; return its numbers."""
        shape, numbers = self._problem["output"], {}
        pytree.match(shape, output, self._kind.torch_device)
        with torch.no_grad():
            for path, node, leaf in pytree.pairs(shape, output):
                if node["type"] == "tensor":
                    pytree.view(node, memory).copy_(leaf)
                elif node["type"] == "number" and math.isfinite(leaf):
                    # NaN and infinities are no JSON; the judge refuses a number that is missing.
                    numbers[path] = leaf
        return numbers

    def _aliases(self) -> list[str]:
        """Paths of the output that lie in the memory of inputs that are not state."""
        inputs = {**self._problem["inputs"]["items"], **self._problem["static"].get("items", {})}
        taken = [
            pytree.view(node, self._inputs)
            for name, one in inputs.items()
            if name not in self._problem["state"]
            for _, node, _ in pytree.pairs(one, self._given[name])
            if node["type"] == "tensor"
        ]
        leaves = pytree.pairs(self._problem["output"], self._output)
        tensors = [(path, leaf) for path, node, leaf in leaves if node["type"] == "tensor"]
        return [path for path, leaf in tensors if any(pytree.overlap(leaf, one) for one in taken)]

    def _call(self, numbers: Message | None = None) -> Callable[[], Any]:
        """The call, bound to the present arguments. No code of the implementation runs here."""
        self._arguments.update(numbers or {})
        call = partial(self._run, **{name: self._arguments[name] for name in self._names})
        return call if self._desk is None else self._desk.serving(call)

    def do_audit(self, calls: int, flush: bool) -> Message:
        """Run some calls under CUPTI; see `devices.ledger.audit`. Only on a GPU."""
        from aiperf_core.devices.cuda import CudaDevice
        from aiperf_core.devices.ledger import audit

        assert isinstance(self._device, CudaDevice)
        self._poison()
        several = {"meet": rank.meet, "align": rank.align} if rank.joined() else {}
        return audit(self._device, self._call(), calls, flush=flush, **several)

    def do_start_audit(self) -> None:
        """Start CUPTI, which takes seconds, side by side with other workers. Only on a GPU."""
        from aiperf_core.devices.cuda import CudaDevice
        from aiperf_core.devices.ledger import start

        assert isinstance(self._device, CudaDevice)
        start(self._device)

    def do_probe_flush(self) -> Message | None:
        """Measure what a flush does in this process: seconds of a read; None where nothing has to be flushed."""
        found = self._device.probe_flush()
        return asdict(found) if found else None

    def do_steady(self, calls: int, profiled: bool = False) -> None:
        """Make calls without a pause, for a clock outside of this process; under CUPTI if they are `profiled`."""
        call = self._call()
        with _profiler() if profiled else contextlib.nullcontext():
            self._device.make_ready()
            rank.meet()
            self.notify("start")
            for first in range(0, calls, _STEADY_CALLS):
                for _ in range(min(_STEADY_CALLS, calls - first)):
                    self._output = call()
                self._device.synchronize()
            self.notify("stop")

    def do_collectives(self) -> Message:
        """Make a call that is not timed; return what it sends to other ranks."""
        return rank.collectives(self._call())

    def do_state(self) -> Message:
        """A snapshot of this process."""
        return {**snapshot(), "objects": objects(self, self._channel, self._device)}

    def do_memory(self) -> Message:
        """Memory used since `prepare`.

        Of the host, the larger of two figures: what the first call took, for which malloc gave back freed memory, and
        what all calls have left behind. Between them malloc keeps freed memory, and the gaps in its heap would count. A
        candidate could take less in the first call: its figure is the peak in all calls, gaps included.
        """
        if not self._candidate:
            give_back_freed_memory()
            reset_peak_rss()
        used, first = self._device.memory(), self._first_used or Memory()
        keep_freed_memory()
        most = {name: _larger(getattr(first, name), getattr(used, name)) for name in ("peak_bytes", "host_peak_bytes")}
        return {**asdict(used), **most}

    def _poison(self) -> None:
        """Overwrite the last output and release it.

        A buffer that the implementation keeps then holds NaN; any other goes back to the allocator, which hands it out
        for the next output. The rest of the same storage belongs to the implementation. The judge renews the harness's
        memory.
        """
        for one in pytree.tensors(self._output):
            storage = one.untyped_storage()
            if storage.data_ptr() in (self._inputs.data_ptr(), self._outputs.data_ptr()):
                continue
            first, end = pytree.extent(one)
            with torch.inference_mode():
                region = torch.empty(0, dtype=torch.uint8, device=one.device)
                region.set_(storage, first, (end - first,), (1,))
                if self._kind.on_host and end - first <= _SMALL_BYTES:
                    region.numpy().fill(_POISON)
                else:
                    region.fill_(_POISON)
        self._output = None
        self._device.synchronize()

    def _queue_fingerprint(self, output: Any) -> None:
        """Queue a fingerprint of the output as it is when the clock stops."""
        if "judged_output" not in self._off:
            self._queued_sums = self._sums(output, self._place)

    def _fingerprint(self, place: float) -> list[int]:
        """The fingerprint of the output now."""
        return _read(self._sums(self._output, place))

    def _sums(self, output: Any, place: float) -> list[Any]:
        """Sums over the bits of an output's tensors, which a device may still have to compute.

        Of a large tensor of the host only a window at `place`, between 0 and 1, is read: a sum over all of it could
        take longer than the call. One thread reads it: the call's threads may still spin, and torch's would wait for
        them.
        """
        sums = []
        for one in pytree.tensors(output):
            if type(one) not in (torch.Tensor, torch.nn.Parameter) or one.layout is not torch.strided or one.is_meta:
                raise ContractError(f"the output holds {pytree.summary(one)}; accepted are plain dense tensors")
            storage, (first, end) = one.untyped_storage(), pytree.extent(one)
            # Whole words; the first may begin before the tensor, the last end behind it.
            first //= 8
            count = max(0, min(-(-end // 8), storage.nbytes() // 8) - first)
            window = min(count, _WINDOW_WORDS) if self._kind.on_host else count
            words = torch.empty(0, dtype=torch.int64, device=one.device)
            words = words.set_(storage, first + int(place * (count - window)), (window,), (1,))
            sums.append(np.add.reduce(words.numpy()) if self._kind.on_host else words.sum())
        return sums


def _profiler() -> contextlib.AbstractContextManager[Any]:
    from aiperf_core.devices.ledger import profiler

    context: contextlib.AbstractContextManager[Any] = profiler()
    return context


def _told(timed: Timed) -> Message:
    """The times and counts of a sample as a message."""
    return asdict(timed, filter=lambda one, _: one.name not in ("result", "minor_faults"))


def _read(sums: list[Any]) -> list[int]:
    return [int(one) for one in sums]


def _larger(*figures: int | None) -> int | None:
    return max((one for one in figures if one is not None), default=None)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Worker(channel).serve()
