"""The engine `here`: this machine, one task after the other. It shows what the other engines do, and needs nothing."""

import os
import platform
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define

from aiperf_core.fleet import (
    MACHINE_VARIABLE,
    RESULT_VARIABLE,
    FleetKind,
    FleetTask,
    Offer,
    TaskState,
    TaskStatus,
)
from aiperf_core.harness.processes.parent import end_child_with_this
from aiperf_fleet.engines.common import check_options, check_possible, end_group, tail_of


@define
class _Started:
    task: FleetTask
    process: "subprocess.Popen[bytes]"
    deadline: float
    cut: str = ""


class Here(FleetKind):
    """Starts each task as a process group of its own. Tasks end with the process that submitted them."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        check_options("here", options, ())
        self._machine = platform.node() or "localhost"
        self._waiting: deque[FleetTask] = deque()
        self._started: dict[str, _Started] = {}
        self._cancelled: set[str] = set()
        self._unstarted: dict[str, str] = {}

    def offers(self) -> Sequence[Offer]:
        """This machine, in no class."""
        return [Offer(self._machine)]

    def submit(self, task: FleetTask) -> str:
        """Queue a task."""
        check_possible(task, self.offers())
        self._waiting.append(task)
        self._advance()
        return task.id

    def poll(self, ids: Sequence[str]) -> Mapping[str, TaskState]:
        """The state of each task; starts the next one where a task has ended."""
        self._advance()
        return {one: self._state(one) for one in ids}

    def log(self, task_id: str) -> str:
        """The end of what the task printed."""
        return tail_of(self.folder / f"{task_id}.log")

    def cancel(self, task_id: str) -> None:
        """Kill the group of a task, or take it from the queue."""
        waiting = [one for one in self._waiting if one.id == task_id]
        for one in waiting:
            self._waiting.remove(one)
            self._cancelled.add(task_id)
        started = self._started.get(task_id)
        if started is not None and started.process.poll() is None:
            end_group(started.process)
            started.cut = "cancelled"

    def close(self) -> None:
        """End all tasks."""
        self._waiting.clear()
        for one in self._started:
            self.cancel(one)

    def _state(self, task_id: str) -> TaskState:
        if task_id in self._cancelled:
            return TaskState(status=TaskStatus.ENDED, reason="cancelled")
        if any(one.id == task_id for one in self._waiting):
            return TaskState(status=TaskStatus.WAITING, reason="another task runs on this machine")
        if task_id in self._unstarted:
            return TaskState(status=TaskStatus.LOST, machine=self._machine, reason=self._unstarted[task_id])
        started = self._started.get(task_id)
        if started is None:
            return TaskState(status=TaskStatus.LOST, reason="not a task of this process")
        code = started.process.poll()
        if code is None:
            return TaskState(status=TaskStatus.RUNNING, machine=self._machine)
        return TaskState(
            status=TaskStatus.ENDED,
            machine=self._machine,
            exit_code=None if started.cut else code,
            reason=started.cut,
        )

    def _advance(self) -> None:
        """End what runs for too long, and start the next task on a free machine."""
        for one in self._started.values():
            if one.process.poll() is None:
                if time.monotonic() < one.deadline:
                    return
                end_group(one.process)
                one.cut = f"longer than its limit of {one.task.time_limit_s:g} s"
        if self._waiting:
            self._start(self._waiting.popleft())

    def _start(self, task: FleetTask) -> None:
        environment = {RESULT_VARIABLE: str(task.result), MACHINE_VARIABLE: self._machine}
        path = self.folder / f"{task.id}.log"
        try:
            with open(path, "wb") as log:
                process = subprocess.Popen(
                    task.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **task.environment, **environment},
                    start_new_session=True,
                    preexec_fn=end_child_with_this(),
                )
        except OSError as error:
            where = f"'{task.command[0]}', which prints to '{path}'"
            self._unstarted[task.id] = f"cannot start {where}: {error.strerror or error}"
            return
        self._started[task.id] = _Started(task, process, time.monotonic() + task.time_limit_s)
