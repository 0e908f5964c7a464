"""Cases: attacks, and their honest look-alikes. Records only; what they run is imported in a worker's process."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from aiperf_core.results.models import Finding
    from aiperf_core.validity.check import Seen

# What an attack that is after something else than a verdict writes to its log when it has it.
WORD = "has what it was after"


@frozen(kw_only=True)
class Case:
    """An implementation that commits an issue, or an honest one that looks like it.

    issue: its id in the registry. module: that of a `Benchmark`, whose baseline is honest. implementation: the variant.
    device: where it runs. needs: what the machine must offer beyond the issue's own needs. gains: what the attack has when its
    guard is off and must not have when it is on: `verdict`, to be FASTER; `silence`, that no finding tells of the issue; or
    `word`, to write `WORD` to its log, since it has what it was after. tier: the one in which it is tried first. alone:
    whether it disturbs others, so that it shares no run with them. candidate: whether it is judged as code that nobody trusts:
    the file of the implementation's name in the folder `candidates` beside the module. held_by: which protections of the
    sandbox such an attack meets; where the machine lacks one of them, nothing can be shown.
    """

    issue: str
    module: str
    implementation: str
    device: str = "cpu"
    honest: bool = False
    needs: tuple[str, ...] = ()
    gains: str = "verdict"
    tier: str = "quick"
    alone: bool = False
    candidate: bool = False
    held_by: tuple[str, ...] = ()


@frozen(kw_only=True)
class Recorded:
    """Evidence of an issue, and of honest code that looks like it, for a check that cannot be tried on every machine.

    look: what looks at it; None is the check over `Evidence` of the issue's guard. told: the issue as which it is found, where
    that is another one.
    """

    issue: str
    guilty: Callable[[], Any] = field()
    honest: Callable[[], Any] = field()
    look: "Callable[[Any], Iterable[Seen | Finding]] | None" = None
    told: str | None = None
