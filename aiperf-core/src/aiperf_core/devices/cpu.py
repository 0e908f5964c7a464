"""Timing on the CPU: the monotonic clock, with the CPU time of the process beside it."""

import contextlib
import ctypes
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from aiperf_core.devices.flush_bound import Canary, FlushBound, find
from aiperf_core.devices.sysfs import CACHES, largest_cache_bytes, size_bytes, text
from aiperf_core.devices.timing import Timed, counters, in_a_row, probe
from aiperf_core.measurements import Flush, Memory

# In units of the last-level cache: a larger working set evicts itself and needs no flush.
_SELF_EVICTING = 4
_FLUSH_FACTOR = 2
# From this ratio of a displaced read to a hot one, the effect of a flush is seen beside the noise.
_CLEAR = 2.0
# The part of a core's own cache that is read: so small that torch reads it in one thread. And what displaces it.
_OWN_PART, _DISPLACING = 16, 8
# A flush of this many times the cores' own caches leaves nothing in them.
_DISPLACING_OWN = 2
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

    def __init__(self, working_set_bytes: int, bound: FlushBound | None = None) -> None:
        keep_freed_memory()
        llc = last_level_cache_bytes()
        self._wake = torch.zeros(_WAKE_BYTES, dtype=torch.uint8)
        self._flush: torch.Tensor | None = None
        self._canary: Canary | None = None
        if working_set_bytes < _SELF_EVICTING * llc:
            # The first flush touches its pages: most processes never flush.
            self._flush = torch.empty(_FLUSH_FACTOR * llc, dtype=torch.uint8)
            if bound and bound.size_bytes < bound.whole_bytes == self._flush.numel():
                self._canary, self._written, self._displaced_s = Canary(), bound.size_bytes, bound.displaced_s
        self._at_reset = 0, 0

    def synchronize(self) -> None:
        """Do nothing: calls on the CPU return when they are done."""

    def release_cache(self) -> None:
        """Do nothing: no lines persist in CPU caches."""

    def flush(self) -> None:
        """Write twice the last-level cache, unless the working set evicts itself.

        Less is written where less displaces as much on this machine. Then each flush is checked: memory that was read
        right before must be displaced, or twice as much is written, in all later flushes too.
        """
        if self._flush is None:
            return
        if self._canary is None:
            self._flush.fill_(0)
            return
        self._canary.read()
        self._flush[: self._written].fill_(0)
        while self._written < self._flush.numel() and self._canary.read_s() < self._displaced_s:
            self._written = min(2 * self._written, self._flush.numel())
            self._flush[: self._written].fill_(0)

    def make_ready(self) -> None:
        """Wake the threads that a call may use: they sleep while other processes are measured."""
        self._wake.fill_(0)

    def time(
        self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None
    ) -> Timed:
        """Time a sample by the monotonic clock, whichever `clock` is asked for."""
        return time_by_wall(in_a_row(call, calls))

    def probe_flush(self) -> Flush | None:
        """Time reads of half the last-level cache: hot, displaced by other reads, and after a flush.

        Where the first two hardly differ, as on a virtual machine that gets little of a cache which it shares, the
        reads are those of a part of the core's own cache.
        """
        if self._flush is None:
            return None
        # Not from the buffer's length: the code that is measured may have changed it.
        llc, own = last_level_cache_bytes(), own_cache_bytes()
        found = self._probe(llc // 2, 2 * llc)
        return self._probe(own // _OWN_PART, _DISPLACING * own) if found.cold_s < _CLEAR * found.hot_s else found

    def _probe(self, read_bytes: int, others_bytes: int) -> Flush:
        """Probe the flush by a buffer of this size. The shortest time counts: other processes only add to it."""
        buffer, others = (torch.ones(size // 8, dtype=torch.int64) for size in (read_bytes, others_bytes))
        return probe(buffer.sum, others.sum, self.flush, wall_of, min)

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


def bound_flush() -> FlushBound:
    """Measure how much a flush must write on this machine."""
    whole_bytes, threads = _FLUSH_FACTOR * last_level_cache_bytes(), torch.get_num_threads()
    if caches_bytes() != last_level_cache_bytes():
        reason = "the processors have several last-level caches, and a read shows only one"
        return FlushBound(whole_bytes, whole_bytes, 0.0, reason)
    canary, buffer = Canary(), torch.empty(whole_bytes, dtype=torch.uint8)

    def read_after(written: int) -> float:
        canary.read()
        buffer[:written].fill_(0)
        return canary.read_s()

    return find(read_after, _DISPLACING_OWN * threads * own_cache_bytes(), whole_bytes)


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
    return largest_cache_bytes(Path(CACHES)) or 32 << 20


def caches_bytes() -> int:
    """Total size in bytes of the last-level caches of the CPUs that this process may use."""
    found: dict[str, int] = {}
    for cpu in os.sched_getaffinity(0):
        folders = sorted(Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"))
        if folders:
            found[text(folders[-1] / "shared_cpu_list")] = size_bytes(text(folders[-1] / "size"))
    return sum(found.values()) or last_level_cache_bytes()


def own_cache_bytes() -> int:
    """Size in bytes of the second-level cache of the first CPU; 256 KiB when the kernel does not tell it."""
    for index in Path(CACHES).glob("index*"):
        if (index / "level").read_text().strip() == "2":
            return size_bytes((index / "size").read_text().strip())
    return 256 << 10


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
