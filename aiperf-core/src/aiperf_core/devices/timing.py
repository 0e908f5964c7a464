"""The timing of a sample, and the interface of a timing device."""

import resource
import statistics
from collections.abc import Callable
from itertools import repeat
from typing import Any, Protocol

from attrs import frozen

from aiperf_core.measurements import Flush, Memory

Timer = Callable[[Callable[[], Any]], float]

_PROBES = 5


@frozen
class Timed:
    """A timed sample. Times are in seconds; counters are of all threads of the process.

    result: of the last call.
    device_s: the device's own time; None when timed by the wall clock.
    wall_s: the time that the caller waited; None when timed by the device.
    cpu_s: the CPU time of the process.
    hidden: the launch was hidden from `device_s` behind a blocking kernel.
    voluntary_switches, involuntary_switches: how often a thread gave up its CPU, and how often the kernel took it.
    minor_faults: pages that the kernel provided at first access without reading from disk.
    """

    result: Any
    device_s: float | None
    wall_s: float | None
    cpu_s: float
    hidden: bool
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int = 0


class TimingDevice(Protocol):
    """The interface of the object that `DeviceKind.open` returns."""

    name: str

    def synchronize(self) -> None:
        """Wait for all work of this process on the device."""

    def release_cache(self) -> None:
        """Release cache lines that code of this process made persistent."""

    def flush(self) -> None:
        """Evict the last-level cache, so that the next call reads its inputs from memory."""

    def make_ready(self) -> None:
        """Prepare the device right before a timed call."""

    def time(
        self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None
    ) -> Timed:
        """Time `calls` calls without a pause as one sample, by the `device` or the `wall` clock.

        With both clocks the sample ends when all work of the calls is done. A device without a clock of its own gets
        `wall` only. `align` queues work that makes the devices of several ranks start together, right before the clock
        starts. A device whose kind `fingerprints` takes another argument, `fingerprint`: see `DeviceKind`.
        """

    def probe_flush(self) -> Flush | None:
        """Measure the effect of a flush; None when no flush is needed."""

    def reset_memory(self) -> None:
        """Start to count memory. Called after `prepare`, and again before the first call."""

    def memory(self) -> Memory:
        """Memory used since the reset; None for unknown figures. Called after the first call and the last."""


def probe(
    read: Callable[[], Any],
    displace: Callable[[], Any],
    flush: Callable[[], Any],
    timed: Timer,
    typical: Callable[[list[float]], float] = statistics.median,
) -> Flush:
    """Typical times of a read: hot, displaced by other reads, and after a flush. `timed` returns seconds."""
    hot, cold, flushed = [], [], []
    for _ in range(_PROBES):
        read()
        hot.append(timed(read))
        displace()
        cold.append(timed(read))
        read()
        flush()
        flushed.append(timed(read))
    return Flush(typical(hot), typical(cold), typical(flushed))


def in_a_row(call: Callable[[], Any], calls: int) -> Callable[[], Any]:
    """A function that makes `calls` calls and returns the result of the last."""
    if calls == 1:
        return call

    def run() -> Any:
        result = None
        for _ in repeat(None, calls):
            result = call()
        return result

    return run


def page_faults() -> dict[str, int]:
    """The `minor` and `major` page faults of this process, ended threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"minor": usage.ru_minflt, "major": usage.ru_majflt}


def counters() -> tuple[int, int, int]:
    """Voluntary and involuntary context switches and minor page faults of this process, ended threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_minflt
