"""Cases: attacks, and their honest look-alikes. Records only; what they run is imported in a worker's process."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from aiperf_core.results.models import Finding
    from aiperf_core.validity.check import Seen

# An attack whose aim is no verdict writes this to its log when it has reached its aim.
WORD = "has what it was after"


@frozen(kw_only=True)
class Case:
    """An implementation that commits an issue (an attack), or an honest look-alike.

    issue: the id of the issue.
    module: of a `Benchmark` whose baseline is honest.
    implementation: the variant; of a candidate the file of this name in the folder `candidates` beside the module.
    device: where it runs.
    honest: whether it is an honest look-alike.
    needs: what the machine must offer beyond the needs of the issue.
    gains: what the attack has while its guard is off and must not have while it is on: `verdict`, to be FASTER;
        `silence`, that no finding names the issue; `word`, to write `WORD` to its log.
    tier: the tier in which it is tried first.
    alone: whether it disturbs others, so that it needs a run for itself.
    candidate: whether it is judged as untrusted code.
    held_by: the protections of the sandbox that hold it; a machine that lacks one of them proves nothing.
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
    """Evidence of an issue, and of an honest look-alike, for a check that cannot be tried on every machine.

    issue: the id of the issue.
    guilty, honest: return the evidence.
    look: the check; None for the guard's check of `Evidence`.
    told: the issue that is found, where it is another one.
    """

    issue: str
    guilty: Callable[[], Any] = field()
    honest: Callable[[], Any] = field()
    look: "Callable[[Any], Iterable[Seen | Finding]] | None" = None
    told: str | None = None
