"""The engine `ray`: one task a machine on a Ray cluster, through a process that holds the connection.

The process, `ray_bridge`, is a driver of Ray. It ends when the cluster does, which must not end the fleet: its tasks
are then LOST, and the next question starts another one. Results come back as bytes, without a shared folder.
"""

import base64
import binascii
import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.fleet import FleetKind, FleetTask, Offer, TaskState, TaskStatus
from aiperf_core.names import words
from aiperf_fleet.engines.common import check_options, check_possible, tail_of

OPTIONS = ("address",)
_ANSWER_S = 60.0
_PIECE = 1 << 20


class Ray(FleetKind):
    """Asks the bridge. Tasks end with the process that submitted them."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        check_options("ray", options, OPTIONS)
        if find_spec("ray") is None:
            raise SkipError("ray is not installed: pip install 'aiperf-fleet[ray]'")
        self._bridge: subprocess.Popen[bytes] | None = None
        self._tasks: dict[str, FleetTask] = {}
        self._over: dict[str, TaskState] = {}
        # What the bridge said, which says it once, until it is written.
        self._unwritten: dict[str, dict[str, Any]] = {}

    def offers(self) -> Sequence[Offer]:
        """The nodes with the resource `machine`. Their resources `class_NAME` are their classes."""
        return [Offer(one["machine"], tuple(one["classes"]), one["up"]) for one in self._ask(do="offers")]

    def submit(self, task: FleetTask) -> str:
        """Queue a task that takes the `machine` of a node."""
        check_possible(task, self.offers())
        self._ask(
            do="submit",
            id=task.id,
            command=list(task.command),
            environment=dict(task.environment),
            machine_class=task.machine_class,
            avoid=sorted(task.avoid),
            time_limit_s=task.time_limit_s,
        )
        self._tasks[task.id] = task
        return task.id

    def poll(self, ids: Sequence[str]) -> Mapping[str, TaskState]:
        """The states. What ended tasks delivered is written to their result files."""
        asked = [one for one in ids if one not in self._over and one not in self._unwritten]
        answers = self._ask(do="poll", ids=asked) if asked else {}
        for one, told in answers.items():
            if told["status"] == TaskStatus.ENDED:
                self._unwritten[one] = told
            elif told["status"] == TaskStatus.LOST:
                self._over[one] = _state(told)
        for one, told in list(self._unwritten.items()):
            self._write(one, told)
            self._over[one] = _state(self._unwritten.pop(one))
        return {one: self._over[one] if one in self._over else _state(answers[one]) for one in ids}

    def log(self, task_id: str) -> str:
        """The end of what a task printed, once it has ended."""
        return tail_of(self.folder / f"{task_id}.log")

    def cancel(self, task_id: str) -> None:
        """Kill the worker of a task; its processes end with it."""
        if task_id in self._tasks and task_id not in self._over:
            self._ask(do="cancel", id=task_id)

    def close(self) -> None:
        """End the bridge; Ray ends its tasks."""
        bridge, self._bridge = self._bridge, None
        if bridge is None:
            return
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.close()
        try:
            bridge.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            bridge.kill()
            bridge.wait()
        bridge.stdout.close()

    def _write(self, task_id: str, told: dict[str, Any]) -> None:
        """Write what a task printed and delivered. Raises AiperfError for a full disk; it is then kept in memory."""
        try:
            (self.folder / f"{task_id}.log").write_text(str(told["log"]))
            if told.get("delivered"):
                atomic.write(self._tasks[task_id].result, _decoded(told["content"]))
        except OSError as error:
            raise AiperfError(f"what {task_id} delivered cannot be written: {error.strerror or error}") from error

    def _ask(self, **request: Any) -> Any:
        """Ask the bridge, and start it where it is not there. Raises AiperfError where Ray does not answer."""
        if self._bridge is None or self._bridge.poll() is not None:
            self.close()
            self._bridge = self._started()
        assert self._bridge.stdin is not None
        try:
            self._bridge.stdin.write(json.dumps(request).encode() + b"\n")
            self._bridge.stdin.flush()
            answer = self._line(self._bridge)
        except OSError:
            answer = b""
        if not answer:
            self._bridge.kill()
            said = tail_of(self.folder / "ray.log").strip().splitlines()
            raise AiperfError(f"Ray does not answer: {words(said[-1])[:300] if said else 'its driver ended'}")
        told = json.loads(answer)
        if "error" in told:
            raise AiperfError(f"Ray answers: {words(told['error'])[:500]}")
        return told["value"]

    def _started(self) -> "subprocess.Popen[bytes]":
        address = self.options.get("address", "auto")
        try:
            with open(self.folder / "ray.log", "ab") as log:
                return subprocess.Popen(
                    [sys.executable, "-m", "aiperf_fleet.engines.ray_bridge", address],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                )
        except OSError as error:
            raise AiperfError(f"cannot start the driver of Ray: {error.strerror or error}") from error

    def _line(self, bridge: "subprocess.Popen[bytes]") -> bytes:
        """The next answer; empty where the bridge ended or is silent for too long."""
        assert bridge.stdout is not None
        deadline, pieces = time.monotonic() + _ANSWER_S, b""
        while not pieces.endswith(b"\n"):
            if not select.select([bridge.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return b""
            piece = bridge.stdout.read(_PIECE)
            if not piece:
                return b""
            pieces += piece
        return pieces


def _decoded(content: str) -> bytes:
    """Content that a machine sent; empty where it is damaged, which the reader of the file reports."""
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        return b""


def _state(told: dict[str, Any]) -> TaskState:
    return TaskState(
        status=TaskStatus(told["status"]),
        machine=told.get("machine"),
        exit_code=told.get("exit_code"),
        reason=words(str(told.get("reason", "")))[:500],
    )
