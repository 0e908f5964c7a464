"""Timing on the processor: the monotonic clock, with the process's own processor time beside it."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from aiperf_core.devices.timing import Timed, counters, in_a_row, probe
from aiperf_core.measurements import Flush, Memory

# A working set of so many times the last-level cache evicts itself, and needs no flush.
_SELF_EVICTING = 4
_FLUSH_FACTOR = 2
# Enough for torch to use all its threads, little enough to leave the caches alone.
_WAKE_BYTES = 1 << 20
_CALIBRATIONS = 1001
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# What glibc starts with. Once set they stay: otherwise malloc keeps blocks of a size that was freed before.
_TRIM_BYTES = _MMAP_BYTES = 128 << 10
_MMAPS = 1 << 16


class CpuDevice:
    """The processor of this machine."""

    name = "cpu"

    def __init__(self, working_set_bytes: int) -> None:
        keep_freed_memory()
        llc = last_level_cache_bytes()
        self._wake = torch.zeros(_WAKE_BYTES, dtype=torch.uint8)
        self._flush: torch.Tensor | None = None
        if working_set_bytes < _SELF_EVICTING * llc:
            # Its pages are taken by the first flush: most processes never flush.
            self._flush = torch.empty(_FLUSH_FACTOR * llc, dtype=torch.uint8)
        self._at_reset = 0, 0

    def synchronize(self) -> None:
        """Nothing to wait for: calls on the processor return when they are done."""

    def release_cache(self) -> None:
        """Nothing persists in a processor's caches."""

    def flush(self) -> None:
        """Write twice the last-level cache, unless the working set evicts itself."""
        if self._flush is not None:
            self._flush.fill_(0)

    def make_ready(self) -> None:
        """Wake the threads that a call may use; while other processes were measured, they went to sleep."""
        self._wake.fill_(0)

    def time(
        self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None
    ) -> Timed:
        """Time a sample. Both clocks are the monotonic one here, so `clock` changes nothing."""
        return time_by_wall(in_a_row(call, calls))

    def probe_flush(self) -> Flush | None:
        """Read half of the last-level cache: hot, displaced by reading other memory, and after a flush."""
        if self._flush is None:
            return None
        words = self._flush.numel() // _FLUSH_FACTOR // 8
        half, others = torch.ones(words // 2, dtype=torch.int64), torch.ones(2 * words, dtype=torch.int64)
        return probe(half.sum, others.sum, self.flush, wall_of)

    def reset_memory(self) -> None:
        """Reset the kernel's record of the peak resident set to the present one."""
        reset_peak_rss()
        self._at_reset = process_bytes("VmRSS"), process_bytes("RssFile")

    def memory(self) -> Memory:
        """Growth of the resident set since the reset, to the peak of the whole process.

        Pages of files are left out, most of which are libraries' that were used for the first time.
        """
        (rss, files), now, files_now = self._at_reset, process_bytes("VmRSS"), process_bytes("RssFile")
        grown = (now - files_now) - (rss - files)
        # The kernel may have taken back some pages of files since; whether that was before the peak, nobody knows.
        peak = process_bytes("VmHWM") - rss - max(0, files_now - files)
        most = max(0, grown, peak)
        return Memory(peak_bytes=most, allocated_bytes=None, reserved_bytes=None, host_peak_bytes=most)


def time_by_wall(call: Callable[[], Any]) -> Timed:
    """Time a call by the monotonic clock, with the process's own processor time, context switches and page faults."""
    before, cpu = counters(), time.process_time_ns()
    start = time.perf_counter_ns()
    result = call()
    stop = time.perf_counter_ns()
    cpu = time.process_time_ns() - cpu
    counted = (now - then for now, then in zip(counters(), before, strict=True))
    return Timed(result, None, (stop - start) / 1e9, cpu / 1e9, False, *counted)


def wall_of(call: Callable[[], Any]) -> float:
    """Seconds that a call takes by the monotonic clock."""
    return time_by_wall(call).wall_s or 0.0


def clock_cost() -> float:
    """What timing by the monotonic clock adds to a sample: the median time of a call that does nothing, in seconds."""
    return statistics.median(wall_of(_nothing) for _ in range(_CALIBRATIONS))


def _nothing() -> None:
    pass


def keep_freed_memory() -> None:
    """Have malloc keep what is freed, instead of returning large blocks to the kernel.

    Otherwise every call that allocates its output would pay for touching fresh pages, which is a lesson of its own and
    not part of the others; and poison left in freed blocks would not be found by the next call.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def give_back_freed_memory() -> None:
    """Have malloc return large blocks to the kernel as soon as they are freed, and now all free pages that it has kept.

    What a call takes is then what its process grows by. Of blocks that are kept, the gaps between them count as well: where
    aligned blocks of several sizes come and go, that may be more than the blocks themselves, and differs from run to run.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        libc.mallopt(_M_MMAP_MAX, _MMAPS)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        libc.malloc_trim(0)


def last_level_cache_bytes() -> int:
    """Size of the largest cache of the first processor, or 32 MiB where the kernel does not say."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1] in "KMG" else int(text))
    return max(sizes, default=32 << 20)


def reset_peak_rss() -> None:
    """Reset VmHWM, where the kernel allows it (a peak from before the reset is then counted too)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def process_bytes(key: str) -> int:
    """A figure of this process from the kernel, such as `VmRSS`, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0
