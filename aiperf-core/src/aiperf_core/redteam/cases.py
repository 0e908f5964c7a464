"""Cases: attacks, and their honest look-alikes. Records only; what they run is imported in a worker's process."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from aiperf_core.validity.evidence import Evidence


@frozen(kw_only=True)
class Case:
    """An implementation that commits an issue, or an honest one that looks like it.

    issue: its id in the registry. module: that of a `Benchmark`, whose baseline is honest. implementation: the variant.
    device: where it runs. needs: what the machine must offer beyond the issue's own needs. gains: what the attack has when its
    guard is off and must not have when it is on: `verdict`, to be FASTER, or `silence`, that no finding tells of the issue.
    """

    issue: str
    module: str
    implementation: str
    device: str = "cpu"
    honest: bool = False
    needs: tuple[str, ...] = ()
    gains: str = "verdict"


@frozen(kw_only=True)
class Recorded:
    """Evidence of an issue, and of honest code that looks like it, for a check that cannot be tried on every machine."""

    issue: str
    guilty: "Callable[[], Evidence]" = field()
    honest: "Callable[[], Evidence]" = field()
