"""A process with all that it started, stopped and continued as a whole."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from attrs import define, field

from aiperf_core.harness.isolation.process_monitor import ProcessMonitor, are_stopped

# How long a group may take to stop. A thread in a system call that nothing interrupts stops when the call returns.
STOPPING_S = 10.0
_POLL_S = 20e-6


@define(eq=False)
class ProcessGroup:
    """The group that a process leads.

    pid: the leader.
    """

    pid: int
    _monitor: ProcessMonitor = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin to know the leader's descendants."""
        self._monitor = ProcessMonitor(self.pid)

    def resume(self) -> None:
        """Continue all processes."""
        self._signal(signal.SIGCONT)

    def halt(self) -> int | None:
        """Stop all processes; when they had stopped, by `time.perf_counter_ns`. None where one does not stop in time.

        A descendant that has left the group does not stop. Who is continued by others meanwhile is stopped once more.
        """
        deadline = time.perf_counter_ns() + int(STOPPING_S * 1e9)
        stopped = self._when(lambda: are_stopped(self.pid), deadline)
        if stopped is None or not self._monitor.descendants():
            return stopped
        return self._when(lambda: self.is_stopped, deadline)

    @property
    def is_stopped(self) -> bool:
        """Whether all its processes are stopped now, those among them that were started meanwhile too."""
        found, stopped = {self.pid}, set[int]()
        while running := found - stopped:
            if not all(map(are_stopped, running)):
                return False
            stopped |= running
            found = {*self._monitor.descendants()}
        return True

    def _when(self, stopped: Callable[[], bool], deadline: int) -> int | None:
        self._signal(signal.SIGSTOP)
        while not stopped():
            if time.perf_counter_ns() >= deadline:
                return None
            time.sleep(_POLL_S)
            self._signal(signal.SIGSTOP)
        return time.perf_counter_ns()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
