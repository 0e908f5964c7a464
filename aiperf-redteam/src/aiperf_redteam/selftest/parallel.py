"""Lanes: processes that make runs of cases side by side, each on processors of its own.

A lane is a selftest's planner in another process. The processes of its runs inherit its processors, so that two runs
take no time from each other. While one lane times calls on a GPU, the processes of others only start.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import BinaryIO

from attrs import define, field, frozen

from aiperf_core.devices.device import CUDA
from aiperf_core.errors import AiperfError
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.processes.parent import end_with_parent
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Row
from aiperf_core.validity.issues import Issue
from aiperf_redteam.selftest.runs import Job, NotTriedError
from aiperf_redteam.selftest.trials import ProofPlanner, Trials

LEAST, MOST = 2, 4
# More than LEAST lanes are started only if each has this number of processors.
PROCESSORS = 2
# Phases in which no clock decides anything: processes start, and calls are made that do not count.
_UNTIMED = ("setup", "warm-up")
_GPU = "gpu"


def groups_of(processors: Sequence[int]) -> list[list[int]]:
    """Processors in groups of one size, for each lane one; none where there are fewer processors than lanes."""
    count = min(MOST, max(LEAST, len(processors) // PROCESSORS))
    size = len(processors) // count
    ordered = sorted(processors)
    return [ordered[size * place : size * (place + 1)] for place in range(count)] if size else []


@frozen(kw_only=True)
class Lanes:
    """Processes that make runs side by side.

    logs: the folder for what processes print.
    device: of the selftest; None takes every one that is here.
    issues: the registry by id.
    preload: modules that the fork servers import.
    processors: those of each lane.
    """

    logs: Path
    device: str | None
    issues: Mapping[str, Issue]
    preload: tuple[str, ...] = ()
    processors: Sequence[Sequence[int]] = field(factory=lambda: groups_of([*os.sched_getaffinity(0)]))

    def make(
        self, jobs: Sequence[Job], meanwhile: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[Job, dict[str, Row] | None, float]]:
        """Make runs; yield the rows of each and its seconds when it is done. None where a case could not be tried.

        meanwhile: called while the lanes start, before the first run.
        """
        waiting, busy = list(jobs), dict[Connection, Job]()
        lanes = [self._start(number) for number in range(len(self.processors))]

        def go_on(connection: Connection) -> None:
            if waiting:
                busy[connection] = waiting.pop(0)
                connection.send(busy[connection])

        try:
            meanwhile()
            for _, connection in lanes:
                go_on(connection)
            while busy:
                for connection in [one for one in wait([*busy]) if isinstance(one, Connection)]:
                    job = busy.pop(connection)
                    try:
                        rows, seconds = connection.recv()
                    except EOFError:
                        raise AiperfError(
                            "a process that makes runs of the selftest side by side has ended; what it printed stands "
                            "above. Where memory is short, select fewer issues with --category."
                        ) from None
                    go_on(connection)
                    yield job, rows, seconds
        finally:
            for process, _ in lanes:
                process.terminate()
            for process, connection in lanes:
                connection.close()
                process.wait()

    def _start(self, number: int) -> tuple["subprocess.Popen[bytes]", Connection]:
        """Start a lane; its fork server and all below end with it."""
        logs = self.logs / f"lane-{number}"
        logs.mkdir()
        ours, theirs = Pipe()
        # Its own session: Ctrl-C in the terminal reaches the selftest alone, which ends its lanes.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        ours.send((logs, self.device, dict(self.issues), self.preload, list(self.processors[number])))
        return process, ours


@define(eq=False)
class Turns(Silent):
    """Has runs of different lanes take turns on a GPU: calls are timed in one of them at a time.

    file: is locked meanwhile.
    on_gpu: whether the run that reports uses the GPU.
    """

    file: BinaryIO
    on_gpu: bool = False

    def phase(self, text: str, implementation: str | None = None) -> None:
        """Wait for the GPU before calls are timed, and leave it to others before the next processes start."""
        if self.on_gpu:
            fcntl.flock(self.file, fcntl.LOCK_UN if text.startswith(_UNTIMED) else fcntl.LOCK_EX)

    def end(self) -> None:
        """The run has ended."""
        fcntl.flock(self.file, fcntl.LOCK_UN)


def serve(connection: Connection) -> None:
    """Make the runs that are asked for, until the other side closes the connection."""
    logs, device, issues, preload, processors = connection.recv()
    os.sched_setaffinity(0, processors)
    checks = tuple(check.record for check in load_plugins().checks)
    with (
        (logs.parent / _GPU).open("wb") as file,
        ProofPlanner(Options(device=device), logs, server=ForkServer(preload)) as planner,
    ):
        turns = Turns(file)
        trials = Trials(planner, logs, device, issues, turns, checks)
        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            started, turns.on_gpu = time.monotonic(), job.key.device == CUDA.name
            try:
                rows = trials.make(job.case, job.key)
            except NotTriedError:
                rows = None  # the selftest tries it too, and says why it cannot
            finally:
                turns.end()
            connection.send((rows, time.monotonic() - started))


if __name__ == "__main__":
    end_with_parent()
    # Its fork server ends all processes below, also those that an attack has left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    serve(Connection(int(sys.argv[1])))
