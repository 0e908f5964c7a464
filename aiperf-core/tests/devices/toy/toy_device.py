"""A simulated accelerator: one queue, one thread that works it off, memory of its own that the host's stands in for.

Work is queued by `submit` and goes on behind the caller's back, as on a GPU. The clock ticks in the queue's thread: it counts
the seconds that the device was at work or made to wait by its own queue, not those in which the host prepared a launch.
"""

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiperf_core.devices.device import DeviceKind, Found
from aiperf_core.errors import SkipError


class Toy(DeviceKind):
    """What the harness asks of the simulated accelerator."""

    torch_device = "cpu"
    clock = "ticks of the toy's queue"

    def probe(self) -> Found:
        """Two of them are here."""
        return Found(name="Toy accelerator 1", count=2, capabilities=("queues",))

    def open(self, working_set_bytes: int, *, all_streams: bool) -> "ToyDevice":
        """Its queue."""
        return ToyDevice()


class Gone(Toy):
    """One that is never here."""

    def probe(self) -> Found:
        """Nothing."""
        raise SkipError("its cable is out")


class _Queue:
    """The device's thread, and what it counts."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.allocated_bytes = self.peak_bytes = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._work.get()()

    def submit(self, kernel: Callable[[], None]) -> None:
        """Queue work and return at once."""
        self._work.put(kernel)

    def drain(self) -> None:
        """Wait until the queue is empty."""
        done = threading.Event()
        self._work.put(done.set)
        done.wait()

    def tick(self, ticks: list[float]) -> None:
        """Queue a note of the time, as an event."""
        self._work.put(lambda: ticks.append(time.perf_counter()))

    def allocate(self, size: int) -> None:
        """Count memory."""
        self.allocated_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)


_queues: list[_Queue] = []


def the_queue() -> _Queue:
    """The queue of this process, made when it is first used."""
    if not _queues:
        _queues.append(_Queue())
    return _queues[0]


def submit(kernel: Callable[[], None]) -> None:
    """Launch a kernel: it is done some time later."""
    the_queue().submit(kernel)


def synchronize() -> None:
    """Wait for all that was launched."""
    the_queue().drain()


class ToyDevice:
    """What times calls on it."""

    name = "toy"

    def synchronize(self) -> None:
        """Wait for the queue."""
        synchronize()

    def release_cache(self) -> None:
        """It has no cache."""

    def flush(self) -> None:
        """It has no cache."""

    def make_ready(self) -> None:
        """Wake the thread."""
        synchronize()

    def time(self, call: Callable[[], Any], clock: str, calls: int = 1, align: Callable[[], None] | None = None) -> Any:
        """By ticks in the queue before and after, or by the wall until the queue is empty."""
        from aiperf_core.devices.cpu import time_by_wall
        from aiperf_core.devices.timing import in_a_row

        call = in_a_row(call, calls)
        if clock == "wall":
            return time_by_wall(partial(_waited_for, call))
        return self._by_ticks(call)

    def _by_ticks(self, call: Callable[[], Any]) -> Any:
        from aiperf_core.devices.timing import Timed

        ticks: list[float] = []
        cpu = time.process_time()
        the_queue().tick(ticks)
        result = call()
        the_queue().tick(ticks)
        synchronize()
        return Timed(result, ticks[1] - ticks[0], None, time.process_time() - cpu, False, 0, 0)

    def probe_flush(self) -> None:
        """Nothing has to be flushed."""

    def reset_memory(self) -> None:
        """Count from here."""
        the_queue().peak_bytes = the_queue().allocated_bytes

    def memory(self) -> Any:
        """What `allocate` counted; nothing is reserved ahead."""
        from aiperf_core.measurements import Memory

        return Memory(peak_bytes=the_queue().peak_bytes, allocated_bytes=the_queue().allocated_bytes)


def _waited_for(call: Callable[[], Any]) -> Any:
    result = call()
    synchronize()
    return result
