"""The fleet file, and the document in the bundle of a fleet: its tasks, and what became of each attempt."""

from enum import StrEnum
from pathlib import Path

from attrs import define, evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.results import jsontext, structure
from aiperf_fleet.slow import Comparison, Measured
from aiperf_fleet.suite import Suite

FILE = "fleet.json"
FORMAT = 1
# Names files and folders of the fleet, whose file may come from elsewhere.
_PLAIN_NAME = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", "$comment": "a name such as '0001-ch07.memory_access'"}
_SEPARATORS = str.maketrans("T", "-", ":-")


class Ending(StrEnum):
    """How an attempt ended. OPEN: it goes on.

    DONE: its bundle is here; the exit code is that of the run. FAILED: the run left no bundle; that is a result too.
    UNFIT: the machine handed the task back. LOST: the machine or the engine failed. CUT: the submitting process ended.
    """

    OPEN = "OPEN"
    DONE = "DONE"
    FAILED = "FAILED"
    UNFIT = "UNFIT"
    LOST = "LOST"
    CUT = "CUT"
    CANCELLED = "CANCELLED"


class State(StrEnum):
    """The state of a fleet. OPEN: it goes on, or its process was ended before its end."""

    OPEN = "OPEN"
    COMPLETE = "COMPLETE"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"


@define
class Attempt:
    """One start of a task.

    number: from 1 on, for each task.
    submitted: the id in the engine; empty until the engine has taken it.
    created, ended: times in ISO 8601.
    machine: where it ran.
    ending: how it ended.
    exit_code: of the run.
    reason: why it ended so.
    seal: of the bundle.
    """

    number: int
    submitted: str
    created: str
    machine: str | None = None
    ending: Ending = Ending.OPEN
    exit_code: int | None = None
    reason: str = ""
    seal: str | None = None
    ended: str | None = None


@define
class Task:
    """A run of one target, or of some of its implementations.

    id: names its bundle.
    target: the target that is measured.
    implementations: those that are measured; none stands for all.
    machine_class: the class of its machine; `any` stands for all machines.
    repeat: from 0 on, for each target and class or machine.
    machine: the only machine that may run it.
    expected_s: its seconds in earlier runs.
    counted_from: the first attempt that counts for the limits; a resumed fleet counts anew.
    given_up: why it starts no more; empty where it may.
    attempts: its starts, in their order.
    """

    id: str = field(metadata={"schema": _PLAIN_NAME})
    target: str
    implementations: list[str]
    machine_class: str
    repeat: int
    machine: str | None = None
    expected_s: float | None = None
    counted_from: int = 0
    given_up: str = ""
    attempts: list[Attempt] = field(factory=list)

    @property
    def open(self) -> Attempt | None:
        """The attempt that goes on."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].ending is Ending.OPEN else None

    @property
    def over(self) -> bool:
        """Whether it has a result or will get none."""
        cancelled = bool(self.attempts) and self.attempts[-1].ending is Ending.CANCELLED
        return self.has_result or cancelled or bool(self.given_up)

    @property
    def has_result(self) -> bool:
        """Whether it has a bundle, or failed."""
        return any(one.ending in (Ending.DONE, Ending.FAILED) for one in self.attempts)

    def count(self, ending: Ending) -> int:
        """The number of counted attempts with this ending."""
        return sum(one.ending is ending for one in self.attempts[self.counted_from :])

    @property
    def done(self) -> Attempt | None:
        """The attempt whose bundle is here."""
        return next((one for one in self.attempts if one.ending is Ending.DONE), None)


@define
class FleetFile:
    """The whole file.

    format: of the file.
    name: of the suite.
    engine: the engine that runs it.
    options: those of the engine.
    python: the interpreter on the machines.
    suite: all fields of the suite.
    created, updated: times in ISO 8601.
    state: how it stands.
    tasks: the longest first, in the order of their first starts.
    """

    format: int
    name: str
    engine: str
    options: dict[str, str]
    python: str
    suite: Suite
    created: str
    updated: str
    state: State
    tasks: list[Task]

    @property
    def id(self) -> str:
        """The name and the time of its start, which its bundles have as the label `fleet`."""
        return f"{self.name}-{self.created[:19].translate(_SEPARATORS)}"

    @property
    def missing(self) -> list[Task]:
        """The tasks without a bundle."""
        return [task for task in self.tasks if task.done is None]


@frozen(kw_only=True)
class FleetResult:
    """A fleet that has ended, with the index of its bundles: the payload of a document of kind `fleet`.

    format: of this payload.
    id: the label `fleet` of its bundles.
    name: of the suite.
    engine: the engine that ran it.
    options: those of the engine.
    suite: all fields of the suite, without its store.
    created: the time of its start in ISO 8601.
    state: how it ended.
    tasks: its tasks with all attempts; the attempt that is DONE has the seal of the task's bundle.
    measurements: what the bundles say of their machines.
    machines: the comparison of the machines, which follows from the measurements.
    """

    id: str
    name: str
    engine: str
    options: dict[str, str]
    suite: Suite
    created: str
    state: State
    tasks: list[Task]
    measurements: list[Measured]
    machines: Comparison
    format: int = FORMAT


def write(folder: Path, file: FleetFile) -> None:
    """Write the fleet file whole. Raises OSError, and leaves the old file, for a folder that is full."""
    atomic.write(folder / FILE, jsontext.to_bytes(structure.document(file)))


def read(folder: Path) -> FleetFile:
    """Read the fleet file of a folder. Raises UsageError where there is none, AiperfError for a damaged one."""
    path = folder / FILE
    shown = words(str(path))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"'{words(str(folder))}' is no fleet: {FILE} cannot be read ({error.strerror or error}). "
            "Give the folder that aiperf fleet run printed."
        ) from error
    try:
        document = jsontext.loads(data)
        version = document.get("format") if isinstance(document, dict) else None
        if type(version) is int and version > FORMAT:
            raise AiperfError(f"'{shown}' has format {version}; this aiperf-fleet reads {FORMAT}. Upgrade it.")
        found: FleetFile = structure.structure(document, FleetFile)
    except ValueError as error:
        raise AiperfError(f"'{shown}' is damaged: {words(str(error))}. Start a new fleet: aiperf fleet run") from error
    return found


def resumed(file: FleetFile) -> FleetFile:
    """The file with limits that count anew for tasks without a result."""
    for task in file.tasks:
        task.given_up = ""
        task.counted_from = len(task.attempts)
        if task.attempts and task.attempts[-1].ending is Ending.CANCELLED:
            task.attempts[-1].ending = Ending.CUT
    return evolve(file, state=State.OPEN)
