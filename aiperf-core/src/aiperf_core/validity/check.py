"""A check that looks at evidence after the samples were taken."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

# Plugins contribute checks when they are loaded, which must be quick.
if TYPE_CHECKING:
    from aiperf_core.validity.evidence import Evidence


@frozen
class Seen:
    """That an issue was seen, in words for a person, with the figures it rests on."""

    issue: str
    message: str
    evidence: dict[str, Any] = field(factory=dict)


@frozen
class NotObserved:
    """That a check could not look, and why. Never a pass."""

    reason: str


Look: TypeAlias = "Callable[[Evidence], Iterable[Seen] | NotObserved]"


@frozen
class Check:
    """A guard's look at evidence. `guard` is the guard's name in the registry; a guard may have several.

    `look` says what it saw, nothing where all is well, or that it could not look. What it raises is a failure of the check.
    """

    guard: str
    look: Look
