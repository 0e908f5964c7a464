"""The clock of untrusted code on processors: it runs outside of the process that it times.

The inputs lie in shared memory while the process is stopped, and are released by continuing it. That is the start. The
process writes its output to shared memory and ends the sample in the page that it shares with the observer. The
observer then stops the process, so that the output stays as it is. Both moments are by the observer's clock.
"""

import os
import secrets
import time
from collections.abc import Callable

from attrs import frozen

from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.isolation.process_monitor import own_wait_s

# How often an observer that spins looks whether the process is still there.
_ALIVE_NS = 1_000_000
# Waits for a message of the process for some seconds. Whether one came.
Wait = Callable[[float], bool]


@frozen
class Observed:
    """Observer's times of a sample, in seconds from the release of its inputs.

    ended_s: until the process had ended the sample; None where it did not.
    halted_s: until all its processes had stopped; None where one did not stop.
    gap_s: how long the observer itself was kept from looking.
    """

    ended_s: float | None
    halted_s: float | None
    gap_s: float


def observe(page: ObservedPage, group: ProcessGroup, timeout_s: float, wait: Wait | None = None) -> Observed:
    """Release a stopped process, time its sample, and stop it again.

    wait: sleeps until the process sends a message, where no processor is free. Without it the observer spins.
    """
    number, waited_s = secrets.randbits(63) | 1 << 63, own_wait_s()
    start = time.perf_counter_ns()
    deadline = start + int(timeout_s * 1e9)
    page.start(number)
    group.resume()
    if wait is None:
        ended, gap_s = _spin(page, number, group.pid, deadline)
    else:
        ended, gap_s = _sleep(page, number, deadline, wait), 0.0
    halted = group.halt()
    gap_s = max(gap_s, own_wait_s() - waited_s)
    return Observed(_since(start, ended), _since(start, halted), gap_s)


def _since(start: int, then: int | None) -> float | None:
    return None if then is None else (then - start) / 1e9


def _sleep(page: ObservedPage, number: int, deadline: int, wait: Wait) -> int | None:
    """When the sample ended. A process that sends another message than that of the end has not ended it."""
    wait((deadline - time.perf_counter_ns()) / 1e9)
    now = time.perf_counter_ns()
    return now if page.has_ended(number) else None


def _spin(page: ObservedPage, number: int, pid: int, deadline: int) -> tuple[int | None, float]:
    """When the sample ended, and the longest time between two looks."""
    last, gap = time.perf_counter_ns(), 0
    looked = last
    while not page.has_ended(number):
        now = time.perf_counter_ns()
        gap, last = max(gap, now - last), now
        if now - looked >= _ALIVE_NS:
            looked = now
            if now >= deadline or not is_alive(pid):
                return None, gap / 1e9
    now = time.perf_counter_ns()
    return now, max(gap, now - last) / 1e9


def is_alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
