"""The documents of kind `fleet` in a bundle, as far as analyses read them.

They follow the JSON Schema that `aiperf schema fleet` prints. `aiperf-fleet`, the package that writes them, need not be
installed.
"""

from attrs import frozen

from aiperf_core.names import words
from aiperf_core.results import read_payload
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import document_path
from aiperf_core.results.models import Document

KIND = "fleet"
FORMAT = 1


@frozen(kw_only=True)
class Attempt:
    """One start of a task."""

    machine: str | None
    ending: str
    exit_code: int | None
    reason: str
    seal: str | None


@frozen(kw_only=True)
class Task:
    """A run of a target on one machine."""

    id: str
    target: str
    machine_class: str
    repeat: int
    given_up: str
    attempts: list[Attempt]

    @property
    def last(self) -> Attempt | None:
        """The attempt that left its bundle, or else the last one."""
        found = [one for one in self.attempts if one.ending == "DONE"] or self.attempts
        return found[-1] if found else None

    @property
    def seal(self) -> str | None:
        """The seal of its bundle; None without one."""
        return self.last.seal if self.last is not None and self.last.ending == "DONE" else None


@frozen(kw_only=True)
class MachineEffect:
    """A machine beside the others: its times by theirs."""

    machine: str
    count: int
    ratio: float
    low: float
    high: float
    p: float
    slow: bool


@frozen(kw_only=True)
class Comparison:
    """The machines, the slowest first, or why they are not compared."""

    machines: list[MachineEffect]
    between: float | None
    within: float | None
    reason: str


@frozen(kw_only=True)
class Fleet:
    """A fleet that has ended. `aiperf schema fleet` describes the fields."""

    id: str
    engine: str
    state: str
    tasks: list[Task]
    machines: Comparison

    @property
    def bundles(self) -> int:
        """How many tasks left a bundle."""
        return sum(one.seal is not None for one in self.tasks)

    @property
    def slow(self) -> list[str]:
        """The names of the slow machines."""
        return [one.machine for one in self.machines.machines if one.slow]


def read(bundle: Bundle, name: str) -> tuple[Document, Fleet]:
    """A fleet of a bundle, with its document. Raises BundleError for one of another format."""
    document = bundle.document(KIND, name)
    return document, fleet_of(document, words(str(bundle.path / document_path(KIND, name))))


def fleet_of(document: Document, place: str) -> Fleet:
    """The fleet of a document that lies at a place. Raises BundleError for one of another format."""
    return read_payload(document, Fleet, FORMAT, "aiperf-analysis", place=place)
