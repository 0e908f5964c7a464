"""A check of evidence, after the samples were taken."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

# Plugins contribute checks when they are loaded, which must be quick.
if TYPE_CHECKING:
    from aiperf_core.validity.evidence import Evidence


@frozen
class Seen:
    """An issue that was seen: a message for a person, and the figures that it rests on."""

    issue: str
    message: str
    evidence: dict[str, Any] = field(factory=dict)


@frozen
class NotObserved:
    """Why a check could not look. Never a pass."""

    reason: str


Look: TypeAlias = "Callable[[Evidence], Iterable[Seen] | NotObserved]"


@frozen
class Check:
    """A check of evidence.

    guard: the name of the guard in the registry; a guard may have several checks.
    look: returns the issues that it sees, none where all is well, or why it cannot look. An exception is a failure of
        the check.
    """

    guard: str
    look: Look


def listed(names: Iterable[Any]) -> str:
    """Names in a message."""
    return ", ".join(map(str, names))
