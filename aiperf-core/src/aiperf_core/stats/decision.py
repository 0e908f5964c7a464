"""When sampling that goes on until it is decided may stop.

Who looks at an interval again and again will see it clear a limit by chance. So verdicts are looked at only when the
passes have doubled since the last look, and stand only where two looks in a row agree: half of the second look's passes
are new.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from attrs import define, field, frozen

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Observations, Verdict
from aiperf_core.stats.intervals import half_width, ratio_interval, unclear_order, verdict
from aiperf_core.stats.load import Side, explained_by_load
from aiperf_core.stats.observations import Clocks


@define
class Decision:
    """The looks at the verdicts of a round.

    at_passes: the passes at which the first look is due.
    not_before: no verdict stands before this time, the end of the sampling budget, on the clock of `time.monotonic`.
    """

    at_passes: int
    not_before: float
    _last: Mapping[str, Verdict] | None = field(default=None, init=False)

    def is_due(self, passes: int) -> bool:
        """Whether the verdicts should be looked at after this number of passes."""
        return passes >= self.at_passes

    def stands(self, said: Mapping[str, Verdict], passes: int) -> bool:
        """Note a look, and return whether all its verdicts are decided and agree with those of the look before."""
        agree, self._last, self.at_passes = said == self._last, dict(said), 2 * passes
        decided = bool(said) and Verdict.INCONCLUSIVE not in said.values()
        return agree and decided and time.monotonic() >= self.not_before


@frozen
class Shown:
    """Estimates from the samples of one round.

    observed: of all implementations, the baseline first.
    active: the names of those that are still measured.
    clock: the clock that decides.
    """

    observed: Sequence[Observations]
    active: Collection[str]
    clocks: Clocks
    clock: str
    round_number: int

    def undecided(self, width: float) -> tuple[str, Estimate | None] | None:
        """The first active implementation whose speedup has a wider interval, with that interval.

        None where all intervals are narrower. Without a baseline there are no speedups: then it is the baseline.
        """
        if self.observed[0].name not in self.active:
            return self.observed[0].name, None
        for one, top, own in self._sides():
            interval = ratio_interval(top.blocks, own.blocks)
            if interval is None or half_width(interval) > width:
                return one.name, interval
        return None

    def verdicts(self, floor: float) -> dict[str, Verdict]:
        """Verdicts that the samples allow, by active implementation.

        INCONCLUSIVE where there is no interval, where chance may explain the difference, and where the samples that
        lost no processor show another one. Empty without a baseline.
        """
        if self.observed[0].name not in self.active:
            return {}
        return {one.name: _verdict(top, own, floor) for one, top, own in self._sides() if one.role != "control"}

    def _sides(self) -> Iterator[tuple[Observations, Side, Side]]:
        """The active implementations, each with the baseline's times and its own."""
        top = self._side(self.observed[0])
        for one in self.observed[1:]:
            if one.name in self.active:
                yield one, top, self._side(one)

    def _side(self, one: Observations) -> Side:
        blocks = self.clocks.blocks(one.samples, self.clock, len(self.observed))
        here = blocks.rounds == self.round_number
        # By the clock of a device no sample needs a processor.
        lost = Side.of(one.name, blocks, one.samples).lost if self.clock == "wall" else np.zeros_like(here)
        return Side(one.name, blocks.only(here), lost[here])


def _verdict(top: Side, own: Side, floor: float) -> Verdict:
    interval = ratio_interval(top.blocks, own.blocks)
    said = verdict(interval, floor) if interval else Verdict.INCONCLUSIVE
    doubtful = unclear_order(top.blocks, own.blocks, said)
    # How busy the machine was is known only at the end of the round.
    return Verdict.INCONCLUSIVE if doubtful or explained_by_load(top, own, said, floor, ()) else said
