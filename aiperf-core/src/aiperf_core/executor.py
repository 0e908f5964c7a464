"""Executor: a way to start workers, known by name; and what the harness asks of its class.

A plugin contributes `Executor` records. What a record's `load` names, a class derived from `ExecutorKind`, is looked up in the
supervisor when a run uses it. `here` and `torchrun` are two such classes. A worker is always a process that serves a channel
with `aiperf_core.harness.roles.worker`; an executor decides only where and how it is started.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from attrs import field, frozen

from aiperf_core.contributed import class_path, make, named, one_line
from aiperf_core.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class Executor:
    """A way to start workers: the name that `--executor` takes, and a line about it.

    `load` is where its class lives: `"package.module:Class"`, derived from `ExecutorKind`. An executor that breaks a rule below
    raises `ValueError`, which sets its plugin aside.
    """

    name: str = field(
        validator=named("executor", _is_name, "lower-case letters, digits and hyphens can, such as 'slurm'")
    )
    summary: str = field(validator=one_line("executor"))
    load: str = field(validator=class_path("executor"))

    def resolve(self, server: "ProcessServer") -> "ExecutorKind":
        """Import the class and make one. Raises `SkipError` with the reason where that fails."""
        return make(self.load, ExecutorKind, server)


class WorkerHandle(Protocol):
    """The worker of one implementation, or all its ranks as if they were one. `Child` and `RankGroup` are such.

    guarded: replies that answer no request are refused. paused: its processes run only while a request is open. ended: they
    were killed. last_s: what each rank took for the last sample, by its clock and of processors; empty for one process.
    """

    name: str
    guarded: bool
    paused: bool
    ended: bool
    last_s: list[tuple[float, float]]

    @property
    def idle(self) -> bool:
        """Whether it has answered its last request, so that it can be asked the next."""

    @property
    def pid(self) -> int:
        """The process that is looked at between calls: the worker, or the first rank."""

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
        """Send a request and return the result. Raises `ChildError` for all else."""

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request whose reply is collected later."""

    def collect(self, *, timeout: float, on_notice: Callable[[str], None] | None = None) -> Any:
        """The result of the request that was posted. Raises `ChildError` where there is none."""

    def last_lines(self) -> list[str]:
        """The last lines that it wrote."""

    def kill(self) -> None:
        """End all its processes."""

    def destroy(self) -> None:
        """End the processes, and let whoever asks them next find out; for other threads."""


@frozen(kw_only=True)
class WorkerSpec:
    """Whom to start: a worker for an implementation, of so many ranks (0 for one that is no matter of ranks).

    `log` is the file that gets what it prints, `memory_limit_bytes` how much memory it may map, None for no limit.
    """

    name: str
    log: Path
    ranks: int
    memory_limit_bytes: int | None

    def command(self, fd: int) -> list[str]:
        """A command that is the worker, with the descriptor of its channel inherited; whatever comes before it may be put there."""
        limit = "" if self.memory_limit_bytes is None else str(self.memory_limit_bytes)
        module = "aiperf_core.harness.processes.standalone"
        return [sys.executable, "-P", "-m", module, "worker", str(fd), str(self.log), limit]


class ProcessServer(Protocol):
    """Forks processes of the harness's roles; an executor that starts workers on this machine uses it."""

    def spawn(self, role: str, name: str, log: Path, *, memory_limit_bytes: int | None = None) -> WorkerHandle:
        """Fork a process that serves a role; `log` gets what it prints."""


class ExecutorKind:
    """What the harness asks of a way to start workers, all in the supervisor. One serves a whole run.

    The supervisor imports no torch, so neither may the class's module. A process leads a group of its own, so that it can be
    killed and stopped with its children, and lives no longer than the supervisor.

    takes_one, takes_ranks: whether it starts workers of one process, and of several ranks.
    confines: whether code that nobody trusts may run in its workers.
    """

    takes_one: ClassVar[bool] = True
    takes_ranks: ClassVar[bool] = False
    confines: ClassVar[bool] = False

    def __init__(self, server: "ProcessServer") -> None:
        self.server = server

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Start the processes and return at once; the first request waits for them.

        Raises `ChildError` where they cannot be started, which costs the implementation its row.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End whatever is left. Called once, when the run ends in any way, after every crew of a finished target was killed."""


HERE = Executor("here", "Processes forked on this machine", "aiperf_core.harness.processes.here:Here")
TORCHRUN = Executor("torchrun", "Ranks of torch's elastic launcher", "aiperf_core.harness.ranks.torchrun:Torchrun")
# What comes with the core, by name.
BUILT_IN: Mapping[str, Executor] = {one.name: one for one in (HERE, TORCHRUN)}


def known_executor(name: str, executors: Mapping[str, Executor]) -> Executor:
    """The executor of that name. Raises `UsageError` for one that no plugin provides."""
    if name not in executors:
        raise UsageError(
            f"{name!r} is not an executor; known are {', '.join(sorted(executors))}. See what provides them: aiperf plugins"
        )
    return executors[name]
