"""Timing on the CPU: the monotonic clock, with the CPU time of the process beside it."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from aiperf_core.devices.sysfs import size_bytes
from aiperf_core.devices.timing import Timed, counters, in_a_row, probe
from aiperf_core.measurements import Flush, Memory

# In units of the last-level cache: a larger working set evicts itself and needs no flush.
_SELF_EVICTING = 4
_FLUSH_FACTOR = 2
# Large enough for torch to use all its threads, small enough to leave the caches alone.
_WAKE_BYTES = 1 << 20
_CALIBRATIONS = 1001
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# The values that glibc starts with. It adapts them to the sizes of freed blocks until they are set explicitly.
_TRIM_BYTES = _MMAP_BYTES = 128 << 10
_MMAPS = 1 << 16


class CpuDevice:
    """The CPU as a timing device."""

    name = "cpu"

    def __init__(self, working_set_bytes: int) -> None:
        keep_freed_memory()
        llc = last_level_cache_bytes()
        self._wake = torch.zeros(_WAKE_BYTES, dtype=torch.uint8)
        self._flush: torch.Tensor | None = None
        if working_set_bytes < _SELF_EVICTING * llc:
            # The first flush touches its pages: most processes never flush.
            self._flush = torch.empty(_FLUSH_FACTOR * llc, dtype=torch.uint8)
        self._at_reset = 0, 0

    def synchronize(self) -> None:
        """Do nothing: calls on the CPU return when they are done."""

    def release_cache(self) -> None:
        """Do nothing: no lines persist in CPU caches."""

    def flush(self) -> None:
        """Write twice the last-level cache, unless the working set evicts itself."""
        if self._flush is not None:
            self._flush.fill_(0)

    def make_ready(self) -> None:
        """Wake the threads that a call may use: they sleep while other processes are measured."""
        self._wake.fill_(0)

    def time(
        self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None
    ) -> Timed:
        """Time a sample by the monotonic clock, whichever `clock` is asked for."""
        return time_by_wall(in_a_row(call, calls))

    def probe_flush(self) -> Flush | None:
        """Time reads of half the last-level cache: hot, displaced by other reads, and after a flush."""
        if self._flush is None:
            return None
        words = self._flush.numel() // _FLUSH_FACTOR // 8
        half, others = torch.ones(words // 2, dtype=torch.int64), torch.ones(2 * words, dtype=torch.int64)
        return probe(half.sum, others.sum, self.flush, wall_of)

    def reset_memory(self) -> None:
        """Reset the kernel's peak of the resident set to its present size."""
        reset_peak_rss()
        self._at_reset = process_bytes("VmRSS"), process_bytes("RssFile")

    def memory(self) -> Memory:
        """Growth of the resident set from the reset to its peak.

        Pages of files do not count: most belong to libraries at their first use.
        """
        (rss, files), now, files_now = self._at_reset, process_bytes("VmRSS"), process_bytes("RssFile")
        grown = (now - files_now) - (rss - files)
        # The kernel may have reclaimed pages of files since the reset, before or after the peak.
        peak = process_bytes("VmHWM") - rss - max(0, files_now - files)
        most = max(0, grown, peak)
        return Memory(peak_bytes=most, allocated_bytes=None, reserved_bytes=None, host_peak_bytes=most)


def time_by_wall(call: Callable[[], Any]) -> Timed:
    """Time a call by the monotonic clock; count CPU time, context switches and page faults of the process."""
    before, cpu = counters(), time.process_time_ns()
    start = time.perf_counter_ns()
    result = call()
    stop = time.perf_counter_ns()
    cpu = time.process_time_ns() - cpu
    counted = (now - then for now, then in zip(counters(), before, strict=True))
    return Timed(result, None, (stop - start) / 1e9, cpu / 1e9, False, *counted)


def wall_of(call: Callable[[], Any]) -> float:
    """The time of a call by the monotonic clock, in seconds."""
    return time_by_wall(call).wall_s or 0.0


def clock_cost() -> float:
    """The time that the monotonic clock adds to a sample: the median of empty calls, in seconds."""
    return statistics.median(wall_of(_nothing) for _ in range(_CALIBRATIONS))


def _nothing() -> None:
    pass


def keep_freed_memory() -> None:
    """Make malloc keep freed blocks instead of returning large ones to the kernel.

    Otherwise every call that allocates its output would pay for touching fresh pages, and the poison in freed blocks
    would not reach the next call.
    """
    _mallopt({_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1})


def give_back_freed_memory() -> None:
    """Make malloc return large blocks to the kernel when they are freed, and return all free pages now.

    The growth of the process then equals the memory of a call. With kept blocks the gaps between them would count too,
    which differ from run to run and may exceed the blocks.
    """
    _mallopt({_M_MMAP_THRESHOLD: _MMAP_BYTES, _M_MMAP_MAX: _MMAPS, _M_TRIM_THRESHOLD: _TRIM_BYTES}, trim=True)


def _mallopt(options: dict[int, int], *, trim: bool = False) -> None:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # glibc only
        return
    for option, value in options.items():
        libc.mallopt(option, value)
    if trim:
        libc.malloc_trim(0)


def last_level_cache_bytes() -> int:
    """Size in bytes of the largest cache of the first CPU; 32 MiB when the kernel does not tell it."""
    files = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((size_bytes(file.read_text().strip()) for file in files), default=32 << 20)


def reset_peak_rss() -> None:
    """Reset VmHWM where the kernel allows it; elsewhere an earlier peak counts too."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def process_bytes(key: str) -> int:
    """A figure of /proc/self/status, such as `VmRSS`, in bytes; 0 when it is absent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0
