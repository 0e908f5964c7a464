"""A worker: one process that runs one implementation and times its calls.

It knows what to run and where its inputs lie. It does not know seeds, the reference, the tolerance, or which samples
will be judged: the judge decides that after the clock has stopped.
"""

import contextlib
import gc
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, evolve

from aiperf_core import pytree
from aiperf_core.benchmark import Benchmark, Implementation
from aiperf_core.described import TargetRef
from aiperf_core.devices import shared_buffers
from aiperf_core.devices.cpu import give_back_freed_memory, keep_freed_memory, reset_peak_rss, wall_of
from aiperf_core.devices.device import Device
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.input_file import evict_folder
from aiperf_core.devices.timing import Timed, page_faults
from aiperf_core.devices.witness import await_quiet
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.process_state import digest_code, objects, snapshot
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.roles import rank
from aiperf_core.harness.roles.describer import describe
from aiperf_core.harness.roles.host_floor import HostFloor
from aiperf_core.harness.roles.measured_code import MeasuredCode
from aiperf_core.harness.roles.output import WINDOW_WORDS, Output
from aiperf_core.loading import load_benchmark
from aiperf_core.measurements import Memory
from aiperf_core.precision import set_float32_precision
from aiperf_core.simulated import CLOCK, Simulated

# Calls that are queued before a wait, where calls follow each other without a pause.
_STEADY_CALLS = 8


def before_forks() -> None:
    """Digest the harness's code once, in the process from which the workers are forked."""
    digest_code()


class Worker(Service):
    """The handler of a worker's requests. `begin` and `open` come first, once each; all others need what they make."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._first_used: Memory | None = None
        self._benchmark: Benchmark | None = None
        self._batch: list[tuple[list[tuple[torch.Tensor, torch.Tensor]], torch.Tensor]] = []

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
            benchmark = self._benchmark = load_benchmark(TargetRef(**target))
            declared = asdict(describe(benchmark, target["module"]))
            found = benchmark.implementations_on(device["name"])
            self._implementation = next(one for one in found if one.name == implementation)
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
        self._flushes = self._data.in_process and problem["cold"]  # elsewhere the judge does
        outputs = shared_buffers.attach(problem["outputs_buffers"][0], outputs_fd, self._kind)
        if problem["flush_bound"] is not None:
            self._kind.flush_bound = FlushBound(**problem["flush_bound"])
        self._device = self._kind.open(problem["working_set_bytes"], all_streams="all_streams" not in self._off)
        self._code = MeasuredCode.given(problem, self._data.bytes)
        self._output = Output(problem, self._data.bytes, outputs, self._kind, self._device)
        before = self._objects()
        if self._candidate:
            from aiperf_core.harness.isolation.candidate import load_candidate

            text, load, entry = (self._candidate[name] for name in ("text", "load", "entry"))
            code = load_candidate(text, load, entry, list(problem["inputs"]["items"]))
            self._implementation = Implementation("candidate", "variant", problem["device"], code, "")
        return before

    def do_prepare(self) -> Message:
        """Run the implementation's untimed preparation; return how long it took."""
        if self._kind.fingerprints:  # else the kernels of sums would be loaded behind a call that is held back
            for words in (1, WINDOW_WORDS):
                int(torch.zeros(words, dtype=torch.int64, device=self._kind.torch_device).sum())
        if self._problem.get("memory_decides"):  # the first checkpoint imports it: memory of the process, not of a call
            import_module("torch._dynamo")
        give_back_freed_memory()
        timed = self._device.time(partial(self._code.prepare, self._implementation), "wall")
        gc.collect()
        if self._flushes:  # its memory does not count as the implementation's
            self._device.flush()
        self._device.reset_memory()
        self._evict_folder()
        return {"prepare_s": timed.wall_s}

    def _evict_folder(self) -> None:
        """Evict the implementation's folder from the page cache, where the benchmark asks for that."""
        if self._problem.get("evicted_folder"):
            evict_folder(Path(self._problem["folder"]))

    def do_ready(self) -> None:
        """Remove traces of the last call: poison and release its output, release persisting cache lines."""
        if "poison" not in self._off:
            self._output.poison()
        if "cold_cache" not in self._off:
            self._device.release_cache()

    def do_sample(
        self,
        clock: str,
        numbers: Message,
        calls: int,
        deliver: bool,
        fingerprinted: bool,
        witness: Message | None = None,
    ) -> Message:
        """Time a sample on the values that now lie in the inputs.

        clock: `device`, `wall` or `simulated`.
        numbers: the inputs that are numbers.
        calls: in the sample.
        deliver: whether the output is copied to the judge's memory before the reply. A notice tells when that begins.
        fingerprinted: whether a fingerprint of the output is queued behind the clock's stop. By the wall clock, which
            has stopped by then, every sample of a device that can has one.
        witness: the turns of the witness before the call, and the seconds of a turn on a quiet processor, for which it
            waits a little; None for none.
        """
        self._data.fetch()
        self._evict_folder()
        if self._flushes:
            self._device.flush()
        if self._first_used is None:  # again: the kernel may have taken pages from a process that waits
            give_back_freed_memory()
            self._device.reset_memory()
        call = self._code.call(numbers)
        beside: dict[str, float] = {}
        if witness is not None:
            took_s = wall_of(lambda: beside.update(witness_s=await_quiet(**witness)))
            beside["witness_took_s"] = took_s
        if calls > 1:  # the first of calls in a row has no call before it
            call()
        judged, desk, deferred = "judged_output" not in self._off, self._code.desk, self._problem.get("deferred")
        time: Callable[..., Timed] = self._device.time
        # A served or deferred benchmark has its output only later.
        queues = fingerprinted or (clock == "wall" and self._kind.fingerprints)
        if judged and queues and desk is None and not deferred:
            time = partial(time, fingerprint=self._output.queue_fingerprint)
        if "gc_paused" not in self._off:
            gc.disable()
        try:
            self._device.make_ready()
            rank.meet()
            self.notify("start")
            timed = time(call, "wall" if clock == CLOCK else clock, calls, rank.align)
            self.notify("stop")
        finally:
            gc.enable()
        beside["minor_faults"] = timed.minor_faults / calls
        if simulated := self._problem.get("simulated"):
            answer, beside["simulated_s"] = Simulated(**simulated).split(timed.result)
            timed = evolve(timed, result=answer, wall_s=None)
        if deferred:
            # Here, because a process that is not asked anything is stopped.
            finish_s = wall_of(self._code.instance.finish)
            if timed.wall_s is not None:
                beside["until_done_s"] = timed.wall_s + finish_s
        else:
            self._output.value = timed.result
        if self._first_used is None:  # before the harness touches more memory of its own
            self._first_used = self._device.memory()
            self._keep_freed_memory()
        if desk is not None:  # answers count when they lie in the host's memory, and are judged on the device
            self._output.value = pytree.mapped(self._output.value, lambda one: one.to(self._kind.torch_device))
        self._data.hand_back()
        if judged:
            self._output.keep_fingerprint()
        if deliver:
            self.notify("fingerprinted")
        return {
            **_told(timed),
            "beside": beside,
            "latencies_s": desk.latencies_s if desk is not None else [],
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
            before = page_faults()
            number = page.wait(last)
            try:
                timed = self._device.time(self._code.call(page.numbers()), "wall")
                self._output.value = timed.result
                page.end(number, self._output.copy())
            except BaseException:
                page.end(number, {})
                raise
            faults = {name: count - before[name] for name, count in page_faults().items()}
            self.notify("ended")
        finally:
            gc.enable()
        if self._first_used is None:
            self._first_used = self._device.memory()
            self._keep_freed_memory()
        return {
            **_told(timed),
            "beside": {"minor_faults": timed.minor_faults},
            "faults": faults,
            "output": {"numbers": {}, "late": False, "aliases": self._output.aliases()},
        }

    def do_open_batch(self, calls: int, buffers: list[Message], fds: tuple[int, ...] = ()) -> None:
        """Map the values and the outputs of calls in a row."""
        held = fds or (None, None)
        mapped = [shared_buffers.attach(one, fd, self._kind) for one, fd in zip(buffers, held, strict=True)]
        values, outputs = (one.split(one.numel() // calls) for one in mapped)
        nodes = list(pytree.tensors_of(self._problem["inputs"]))
        self._batch = [
            ([(pytree.view(node, self._data.bytes), pytree.view(node, own)) for node in nodes], out)
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
            self._output.value = self._code.call(own)()
            told.append(self._output.deliver(self._output.value, outputs))
        self._device.synchronize()
        return told

    def do_output(self) -> Message:
        """Check the form of the last call's output and copy it to the judge's memory.

        `late` in the answer: whether the output changed after the clock had stopped.
        """
        if self._problem.get("deferred"):
            self._output.value = self._code.instance.output()
            self._output.keep_fingerprint()
        numbers = self._output.copy()
        return {"numbers": numbers, "late": self._output.is_late(), "aliases": self._output.aliases()}

    def do_audit(self, calls: int, flush: bool) -> Message:
        """Run some calls under CUPTI; see `devices.ledger.audit`. Only on a GPU."""
        from aiperf_core.devices.cuda import CudaDevice
        from aiperf_core.devices.ledger import audit

        assert isinstance(self._device, CudaDevice)
        self._output.poison()
        several = {"meet": rank.meet, "align": rank.align} if rank.joined() else {}
        return audit(self._device, self._code.call(), calls, flush=flush, **several)

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
        call, output = self._code.call(), self._output
        with _profiler() if profiled else contextlib.nullcontext():
            self._device.make_ready()
            rank.meet()
            self.notify("start")
            for first in range(0, calls, _STEADY_CALLS):
                for _ in range(min(_STEADY_CALLS, calls - first)):
                    output.value = call()
                self._device.synchronize()
            self.notify("stop")

    def do_floor(self, sizes: dict[str, float]) -> Message:
        """Time the implementation at the sizes of the host floor; the seconds of each call, or why there is none."""
        assert self._benchmark is not None
        floor = HostFloor(self._benchmark, {**self._problem["params"], **sizes}, self._kind.torch_device)
        try:
            return {"times_s": floor.times_s(self._implementation, self._device)}
        except Exception as error:  # code that does not take such sizes has no floor
            return {"reason": f"{type(error).__name__}: {error}"}

    def do_collectives(self) -> Message:
        """Make a call that is not timed; return what it sends to other ranks."""
        return rank.collectives(self._code.call())

    def do_state(self) -> Message:
        """A snapshot of this process."""
        return {**snapshot(), "objects": self._objects()}

    def do_memory(self, all_calls: bool = False) -> Message:
        """Memory used since `prepare`; for `all_calls` of the host, the peak in all of them.

        Else the larger of two figures: what the first call took, for which malloc gave back freed memory, and what all
        calls have left behind. Between them malloc keeps freed memory, and the gaps in its heap would count.
        """
        if not all_calls:
            give_back_freed_memory()
            reset_peak_rss()
        used, first = self._device.memory(), self._first_used or Memory()
        self._keep_freed_memory()
        pairs = {name: (getattr(first, name), getattr(used, name)) for name in ("peak_bytes", "host_peak_bytes")}
        known = {name: [one for one in pair if one is not None] for name, pair in pairs.items()}
        return {**asdict(used), **{name: max(each, default=None) for name, each in known.items()}}

    def _keep_freed_memory(self) -> None:
        """Have malloc keep what later calls free, unless the peak in all calls decides the verdict."""
        if not self._problem.get("memory_decides"):
            keep_freed_memory()

    def _objects(self) -> Message:
        return objects(self, self._channel, self._data, self._device, self._code, self._output)


def _profiler() -> Any:
    from aiperf_core.devices.ledger import profiler

    return profiler()


def _told(timed: Timed) -> Message:
    """The times and counts of a sample as a message."""
    return asdict(timed, filter=lambda one, _: one.name not in ("result", "minor_faults"))


main = Worker.main
