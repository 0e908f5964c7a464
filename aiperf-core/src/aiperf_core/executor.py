"""Executor: a way to start workers, and `ExecutorKind`, the class that the harness uses it through.

A plugin contributes `Executor` records. The supervisor imports the class that a record names in `load` when a run uses
it. `here` and `torchrun` are two such classes. A worker is always a process that serves a channel with
`aiperf_core.harness.roles.worker`; an executor decides only where and how it starts.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from attrs import field, frozen

from aiperf_core.contributed import class_path, known, make, named, one_line
from aiperf_core.errors import UsageError
from aiperf_core.targets import Selection

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class Executor:
    """A way to start workers. A field that breaks a rule below raises `ValueError`, which sets the plugin aside.

    name: as in `--executor`.
    summary: one line.
    load: its class, `"package.module:Class"`, derived from `ExecutorKind`.
    """

    name: str = field(
        validator=named("executor", _is_name, "lower-case letters, digits and hyphens can, such as 'slurm'")
    )
    summary: str = field(validator=one_line("executor"))
    load: str = field(validator=class_path("executor"))

    def resolve(self, server: "ProcessServer") -> "ExecutorKind":
        """Import the class and create an instance. Raises `SkipError` with the reason when that fails."""
        return make(self.load, ExecutorKind, server)

    def join(
        self,
        selections: Sequence[Selection],
        nnodes: int,
        endpoint: str | None,
        node_rank: int,
        tell: Callable[[str], None],
    ) -> "Executor | None":
        """Join a run on several machines: the executor of that run, or None where this machine ran ranks to its end.

        nnodes, endpoint, node_rank: of the options of `aiperf run`.
        tell: called with each line of progress.

        Called for the executor named `SEVERAL_MACHINES`. Raises `UsageError` where that is not installed.
        """
        raise UsageError(
            "Ranks on several machines need the package aiperf-fleet. Get it, in a clone of aiperf: "
            "pip install -e ./aiperf-fleet"
        )


class WorkerHandle(Protocol):
    """The worker of an implementation: one process (`Child`) or all its ranks (`RankGroup`).

    guarded: refuse replies that answer no request.
    paused: its processes run only while a request is open.
    ended: its processes were killed.
    last_s: for each rank, the seconds of the last sample by its clock and of CPU time; empty for one process.
    """

    name: str
    guarded: bool
    paused: bool
    ended: bool
    last_s: list[tuple[float, float]]

    @property
    def idle(self) -> bool:
        """Whether it has answered its last request and can take the next."""

    @property
    def pid(self) -> int:
        """The process that is inspected between calls: the worker, or the first rank."""

    @property
    def pids(self) -> list[int]:
        """All processes that run the implementation."""

    def ask(
        self,
        do: str,
        *,
        timeout: float,
        fds: tuple[int, ...] = (),
        on_notice: Callable[[str], None] | None = None,
        **arguments: Any,
    ) -> Any:
        """Send a request and return its result. Raises `ChildError` for any other outcome."""

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request; `collect` returns its result."""

    def collect(self, *, timeout: float, on_notice: Callable[[str], None] | None = None) -> Any:
        """The result of the posted request. Raises `ChildError` when there is none."""

    def last_lines(self) -> list[str]:
        """The last lines of its output."""

    def kill(self) -> None:
        """End all its processes."""

    def destroy(self) -> None:
        """End its processes from another thread; the next request then fails."""


@frozen(kw_only=True)
class WorkerSpec:
    """A worker to start.

    name: the implementation.
    log: the file for its output.
    ranks: the number of ranks; 0 for a workload without ranks.
    memory_limit_bytes: the memory that it may map; None for no limit.
    """

    name: str
    log: Path
    ranks: int
    memory_limit_bytes: int | None

    def command(self, fd: int) -> list[str]:
        """The command line of the worker, which inherits `fd`, the descriptor of its channel. A prefix may be added."""
        limit = "" if self.memory_limit_bytes is None else str(self.memory_limit_bytes)
        module = "aiperf_core.harness.processes.standalone"
        return [sys.executable, "-P", "-m", module, "worker", str(fd), str(self.log), limit]


class ProcessServer(Protocol):
    """Forks processes for the roles of the harness, for executors that start workers on this machine."""

    def spawn(self, role: str, name: str, log: Path, *, memory_limit_bytes: int | None = None) -> WorkerHandle:
        """Fork a process that serves a role; its output goes to `log`.

        role: a name of the harness, such as `worker`, or a module whose `main(channel)` serves.
        """


class ExecutorKind:
    """The interface of a way to start workers. All methods run in the supervisor; one instance serves a whole run.

    The supervisor imports no torch, and the class's module must not import it either. A worker process leads a group of
    its own, so that it can be stopped and killed with its children, and ends with the supervisor at the latest.

    takes_one: it starts workers of one process.
    takes_ranks: it starts workers of several ranks.
    confines: untrusted code may run in its workers.
    """

    takes_one: ClassVar[bool] = True
    takes_ranks: ClassVar[bool] = False
    confines: ClassVar[bool] = False

    def __init__(self, server: "ProcessServer") -> None:
        self.server = server

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Start the processes and return at once; the first request waits for them.

        Raises `ChildError` when they cannot start, which fails the row of the implementation.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End what is left. Called once at the end of every run, after the workers of finished targets were killed."""


HERE = Executor("here", "Processes forked on this machine", "aiperf_core.harness.processes.here:Here")
TORCHRUN = Executor("torchrun", "Ranks of torch's elastic launcher", "aiperf_core.harness.ranks.torchrun:Torchrun")
# The executor of another package whose `join` serves `aiperf run --nnodes`.
SEVERAL_MACHINES = "nodes"
# The core's own executors by name.
BUILT_IN: Mapping[str, Executor] = {executor.name: executor for executor in (HERE, TORCHRUN)}


def known_executor(name: str, executors: Mapping[str, Executor]) -> Executor:
    """The executor of that name. Raises `UsageError` for an unknown name."""
    return known(name, executors, "executor")
