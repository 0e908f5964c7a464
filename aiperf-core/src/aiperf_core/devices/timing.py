"""One timed sample, as a device saw it."""

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
    """The result of the last call of a sample, and the sample's times in seconds.

    `device_s` is the GPU's own time and `wall_s` what the caller waited for; a sample that was timed in one way has no
    figure for the other. `hidden` says whether the launch was hidden from `device_s` behind a blocking kernel. The
    switches are those of all threads of the process: how often one gave up its processor, and how often one was taken;
    `minor_faults` counts the pages that the kernel gave them on first access, without reading any from disk.
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
    """What a worker needs of its device: what `DeviceKind.open` returns."""

    name: str

    def synchronize(self) -> None:
        """Wait for all work of this process on the device."""

    def release_cache(self) -> None:
        """Release what code of this process made persist in caches."""

    def flush(self) -> None:
        """Evict the last-level cache, so that the next call finds its inputs in memory."""

    def make_ready(self) -> None:
        """Bring the device into the state in which a call is timed, right before it."""

    def time(
        self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None
    ) -> Timed:
        """Time so many calls without a pause, as one sample, by the `device` or the `wall` clock.

        Either way the sample ends when all work that the calls have begun is done, whoever waits for it. A device without a
        clock of its own is asked for `wall` only.

        `align` queues what lets the devices of several ranks start together, right before the clock starts. A device whose
        kind `seals` takes one argument more, `seal`: see `DeviceKind`.
        """

    def probe_flush(self) -> Flush | None:
        """See what a flush does here; None where nothing has to be flushed."""

    def reset_memory(self) -> None:
        """Count memory from here. Asked for after `prepare`, and once more before the first call."""

    def memory(self) -> Memory:
        """Memory used since the reset; None for what cannot be measured. Asked for after the first call and the last."""


def probe(read: Callable[[], Any], displace: Callable[[], Any], flush: Callable[[], Any], timed: Timer) -> Flush:
    """Read a buffer hot, after other reads displaced it, and after a flush; medians. `timed` gives a call's seconds."""
    hot, cold, flushed = [], [], []
    for _ in range(_PROBES):
        read()
        hot.append(timed(read))
        displace()
        cold.append(timed(read))
        read()
        flush()
        flushed.append(timed(read))
    return Flush(statistics.median(hot), statistics.median(cold), statistics.median(flushed))


def in_a_row(call: Callable[[], Any], calls: int) -> Callable[[], Any]:
    """A function that makes so many calls and returns the last one's result."""
    if calls == 1:
        return call

    def run() -> Any:
        result = None
        for _ in repeat(None, calls):
            result = call()
        return result

    return run


def context_switches() -> tuple[int, int]:
    """Voluntary and involuntary context switches of this process so far, ended threads included."""
    return counters()[:2]


def counters() -> tuple[int, int, int]:
    """Voluntary and involuntary context switches and minor page faults of this process so far, ended threads included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_minflt
