"""Fleet: an engine that runs tasks on several machines, and `FleetKind`, the class through which it is used.

A plugin contributes `Fleet` records with the hook `aiperf_fleets`. The package `aiperf-fleet` finds them there, and
offers each as `aiperf fleet run --on NAME`. A task is one command on one whole machine. The engine starts the command,
says how it ended, and brings one file back; it knows nothing of benchmarks.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from attrs import field, frozen

from aiperf_core.contributed import class_path, known, make, named, one_line
from aiperf_core.errors import AiperfError, SkipError

_NAME = re.compile(r"[a-z][a-z0-9-]*")

# Names the file that a task's command writes.
RESULT_VARIABLE = "AIPERF_FLEET_RESULT"
# Names the machine to a task's command, as in `Offer.machine`.
MACHINE_VARIABLE = "AIPERF_FLEET_MACHINE"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class Fleet:
    """An engine for several machines. A field that breaks a rule below raises `ValueError`; its plugin is skipped.

    name: as in `--on`.
    summary: one line.
    load: its class, `"package.module:Class"`, derived from `FleetKind`.
    """

    name: str = field(validator=named("fleet", _is_name, "lower-case letters, digits and hyphens can, such as 'slurm'"))
    summary: str = field(validator=one_line("fleet"))
    load: str = field(validator=class_path("fleet"))

    def resolve(self, folder: Path, options: Mapping[str, str]) -> "FleetKind":
        """Import the class and create an instance; see `FleetKind`.

        Raises `UsageError` for options that the class refuses, `SkipError` with the reason where it cannot be used.
        """
        try:
            return make(self.load, FleetKind, folder, options)
        except SkipError as error:
            if isinstance(error.__cause__, AiperfError):
                raise error.__cause__ from None
            raise


@frozen
class Offer:
    """A machine that an engine has.

    machine: its name, unique in the engine.
    classes: the machine classes that the engine's configuration gives it.
    up: whether it takes tasks now.
    """

    machine: str
    classes: tuple[str, ...] = ()
    up: bool = True


@frozen(kw_only=True)
class FleetTask:
    """A command that runs once, alone on one machine.

    id: unique among the tasks of a folder; letters, digits, '-', '_' and '.'.
    command: the program and its arguments, without a shell.
    result: the file on the submitting machine that has, when the task has ended, what the command wrote to the file
        `$AIPERF_FLEET_RESULT`.
    machine_class: the class that the machine must have; None for any machine.
    avoid: machines that must not be used.
    environment: variables for the command, in addition to those of the machine. They must not hold secrets.
    time_limit_s: when the engine ends the command, in seconds.
    """

    id: str
    command: tuple[str, ...]
    result: Path
    machine_class: str | None = None
    avoid: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(factory=dict)
    time_limit_s: float = 3600.0

    def fits(self, offer: Offer) -> bool:
        """Whether a machine may be used."""
        of_class = self.machine_class is None or self.machine_class in offer.classes
        return offer.up and of_class and offer.machine not in self.avoid


class TaskStatus(StrEnum):
    """The status of a submitted task. LOST: the machine or the engine failed, and the task will not end by itself."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"
    LOST = "LOST"


@frozen(kw_only=True)
class TaskState:
    """State of a submitted task, as its engine tells it.

    machine: where it runs or ran, if that is known.
    exit_code: of an ended task; negative for a signal, None where the engine ended it.
    reason: why it waits or was lost, in the engine's words.
    """

    status: TaskStatus
    machine: str | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether the state is final."""
        return self.status in (TaskStatus.ENDED, TaskStatus.LOST)


class FleetKind:
    """The interface of an engine. All methods are called from one thread of the submitting process.

    folder: for the engine's own files, such as scripts and logs. An engine with a shared file system needs it there.
    options: the engine's options by name, as in `--engine NAME=VALUE`. The class raises `UsageError` for
        an unknown one.

    lasting: whether tasks outlive the instance that submitted them, so that a new instance can poll their ids.
    """

    lasting: ClassVar[bool] = False

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self.folder = folder
        self.options = options

    def offers(self) -> Sequence[Offer]:
        """The machines, those that are down included. Raises `AiperfError` where the engine does not answer."""
        raise NotImplementedError

    def submit(self, task: FleetTask) -> str:
        """Queue a task and return its id in the engine, at once.

        Raises `UsageError` where no machine of the engine can ever take it, `AiperfError` where the engine refuses it.
        """
        raise NotImplementedError

    def poll(self, ids: Sequence[str]) -> Mapping[str, TaskState]:
        """The state of each task, by the ids that `submit` returned. An id that is not known is LOST.

        The result file of a task that is ENDED is in its place. Raises `AiperfError` where the engine does not answer
        now; the caller asks again.
        """
        raise NotImplementedError

    def log(self, task_id: str) -> str:
        """Output of the task so far, by the id that `submit` returned; empty where nothing is known."""
        raise NotImplementedError

    def cancel(self, task_id: str) -> None:
        """End a task, with all its processes. A task that is over, or not known, is left as it is."""
        raise NotImplementedError

    def close(self) -> None:
        """End what this process started. Tasks of an engine that is not `lasting` end. May be called twice."""


def known_fleet(name: str, fleets: Mapping[str, Fleet]) -> Fleet:
    """The fleet of that name. Raises `UsageError` for an unknown name."""
    return known(name, fleets, "fleet")
