"""Timing on an NVIDIA GPU.

With the `device` clock, a blocking kernel holds the GPU while the host queues the call. The start event, the work of
the call and the end event then run back to back, and launch latency does not count. Every stream of the context waits
for the start event, and the end event waits for the work of every stream: work on a side stream is neither early nor
missed.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from aiperf_core.devices.cpu import process_bytes, reset_peak_rss, time_by_wall
from aiperf_core.devices.cuda_memory import checked, cuda_bindings
from aiperf_core.devices.timing import Timed, counters, in_a_row, probe
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.measurements import Flush, Memory

_source = cuda_source("hold.cu")

HOLD_LIMIT_NS = 50_000_000
# A call that makes the blocking kernel reach its limit this often waits for the GPU itself: its launch cannot be
# hidden.
_MAX_TIMEOUTS = 2
# Empty kernels before a timed call: the first launches find the GPU and the launch path in another state.
_WAKING_KERNELS = 8
_FLUSH_FACTOR = 2
_PIECE_BYTES, _READERS = 16, 256  # of a load of the flush; threads of a block that loads


class CudaDevice:
    """The current CUDA device of this process.

    Without `all_streams` only the work of the current stream is timed, as in most other harnesses.
    """

    name = "cuda"

    def __init__(self, *, all_streams: bool = True) -> None:
        self._all_streams = all_streams
        self._runtime, self._driver = _bindings()
        torch.cuda.init()
        l2_bytes = torch.cuda.get_device_properties().L2_cache_size
        self._flush = torch.empty(_FLUSH_FACTOR * l2_bytes, dtype=torch.uint8, device="cuda")
        self._go = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._timed_out = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._hold, self._mark, self._empty = (_source.kernel(name) for name in ("hold", "mark", "empty"))
        self._read_zeros = _source.kernel("read_zeros")
        self._timeouts = 0
        self._context = self._ask(self._driver.cuCtxGetCurrent())
        self._persisting_limit = self._runtime.cudaLimit.cudaLimitPersistingL2CacheSize
        self._rss_at_reset = 0

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        torch.cuda.synchronize()

    def release_cache(self) -> None:
        """Release persisting L2 lines and the part of L2 that is set aside for them."""
        if self._ask(self._runtime.cudaDeviceGetLimit(self._persisting_limit)):
            self._ask(self._runtime.cudaDeviceSetLimit(self._persisting_limit, 0))
        self._ask(self._runtime.cudaCtxResetPersistingL2Cache())

    def flush(self) -> None:
        """Write twice the size of L2 and read it again, after releasing persisting lines.

        Written lines go to memory when others take their place. Without the read, the timed call would wait for that.
        """
        self.release_cache()
        self._flush.zero_()
        pieces = self._flush.numel() // _PIECE_BYTES
        self._read_zeros(self._flush, pieces, grid=-(-pieces // _READERS), block=_READERS)

    def make_ready(self) -> None:
        """Let the GPU finish earlier work and switch to this process.

        The judge renews the inputs in another context. A context switch takes the GPU more than 100 us, which the first
        kernel would otherwise wait for.
        """
        for _ in range(_WAKING_KERNELS):
            self.empty()
        torch.cuda.synchronize()

    def time(
        self,
        call: Callable[[], Any],
        clock: str,
        calls: int = 1,
        align: Callable[[], None] | None = None,
        fingerprint: Callable[[Any], None] | None = None,
    ) -> Timed:
        """Time a sample by GPU events (`device`) or by the monotonic clock of the host (`wall`)."""
        call = in_a_row(call, calls)
        if clock != "wall":
            return self._time_device(call, align, fingerprint)
        timed = time_by_wall(partial(_waited_for, call))
        if fingerprint is not None:
            fingerprint(timed.result)
        return timed

    def probe_flush(self) -> Flush | None:
        """Time reads of a quarter of L2: hot, displaced by other reads, and after a flush."""
        words = self._flush.numel() // _FLUSH_FACTOR // 8
        quarter, others = (torch.ones(size, dtype=torch.int64, device="cuda") for size in (words // 4, 4 * words))
        return probe(quarter.sum, others.sum, self.flush, self._event_s)

    def _event_s(self, call: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        return self._time_device(call).device_s or 0.0

    def _time_device(
        self,
        call: Callable[[], Any],
        align: Callable[[], None] | None = None,
        fingerprint: Callable[[Any], None] | None = None,
    ) -> Timed:
        hide = self._timeouts < _MAX_TIMEOUTS
        before, cpu = counters(), time.process_time_ns()
        result, start, end = self._between_events(call, hide=hide, align=align, fingerprint=fingerprint)
        torch.cuda.synchronize()
        cpu = time.process_time_ns() - cpu
        after = counters()
        hidden = hide and not int(self._timed_out[0])
        self._timeouts += int(hide and not hidden)
        seconds = start.elapsed_time(end) / 1e3
        return Timed(result, seconds, None, cpu / 1e9, hidden, after[0] - before[0], after[1] - before[1])

    def framed(self, call: Callable[[], Any], align: Callable[[], None] | None = None) -> float:
        """Run a call between the kernels `hold` and `mark` for a trace; return its event time in seconds.

        `align` queues the meeting of the GPUs of several ranks. Another `mark` then separates it from the call.
        """

        def meet() -> None:
            assert align is not None
            align()
            self._mark(grid=1, block=1)

        _, start, end = self._between_events(call, hide=True, align=meet if align is not None else None)
        torch.cuda.current_stream().wait_event(end)
        self._mark(grid=1, block=1)
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def empty(self) -> None:
        """Launch a kernel that does nothing."""
        self._empty(grid=1, block=1)

    def _between_events(
        self,
        call: Callable[[], Any],
        *,
        hide: bool,
        align: Callable[[], None] | None = None,
        fingerprint: Callable[[Any], None] | None = None,
    ) -> tuple[Any, torch.cuda.Event, torch.cuda.Event]:
        """Queue a call between two events that all streams obey; return its result and the events.

        `align` queues work that makes the GPUs of several ranks start together.
        `fingerprint` queues the fingerprint of the output, behind all earlier work of every stream.
        """
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()  # creates the event on the device
        end.record()
        torch.cuda.synchronize()
        if hide:
            self._go[0] = self._timed_out[0] = 0
            self._hold(self._go.data_ptr(), self._timed_out.data_ptr(), HOLD_LIMIT_NS, grid=1, block=1)
        try:
            if align is not None:
                align()
            start.record()
            if self._all_streams:
                self._ask(self._driver.cuCtxWaitEvent(self._context, self._driver.CUevent(start.cuda_event)))
            result = call()
            if self._all_streams:
                self._record_all(end)
            else:
                end.record()
            if fingerprint is not None:
                queued = end
                if not self._all_streams:
                    queued = torch.cuda.Event()
                    queued.record()
                    self._record_all(queued)
                torch.cuda.current_stream().wait_event(queued)
                fingerprint(result)
        finally:
            self._go[0] = 1
        return result, start, end

    def _record_all(self, event: torch.cuda.Event) -> None:
        """Record an event behind the work of every stream of the context."""
        self._ask(self._driver.cuCtxRecordEvent(self._context, self._driver.CUevent(event.cuda_event)))

    def reset_memory(self) -> None:
        """Reset the peak of the allocator and return its free blocks."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        reset_peak_rss()
        self._rss_at_reset = process_bytes("VmRSS")

    def memory(self) -> Memory:
        """Peak, allocated and reserved bytes of the allocator, without the harness's own buffer."""
        return Memory(
            peak_bytes=torch.cuda.max_memory_allocated() - self._flush.numel(),
            allocated_bytes=torch.cuda.memory_allocated() - self._flush.numel(),
            reserved_bytes=torch.cuda.memory_reserved(),
            host_peak_bytes=max(0, process_bytes("VmHWM") - self._rss_at_reset),
        )

    @staticmethod
    def _ask(result: tuple[Any, ...]) -> Any:
        return checked(result, "timing a call")


def _waited_for(call: Callable[[], Any]) -> Any:
    result = call()
    torch.cuda.synchronize()
    return result


def _bindings() -> tuple[Any, Any]:
    runtime, driver = cuda_bindings()
    if not hasattr(driver, "cuCtxRecordEvent"):
        raise SkipError("needs cuda-bindings 12.5 or later, to wait for every stream (pip install -U cuda-bindings)")
    return runtime, driver
