"""When sampling that goes on until it is decided may stop.

Who looks at an interval again and again will see it clear a limit by chance. So verdicts are looked at only when the
passes have doubled since the last look, and stand only where two looks in a row agree: half of the second look's passes
are new.
"""

import time
from collections.abc import Iterator, Mapping

from attrs import define, field

from aiperf_core.harness.run.participant import Participant
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict
from aiperf_core.stats.intervals import Blocks, half_width, ratio_interval, verdict
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


def undecided(
    implementations: list[Participant], clocks: Clocks, clock: str, width: float, round_number: int
) -> tuple[Participant, Estimate | None] | None:
    """The first active implementation whose speedup in one round has a wider interval, with that interval.

    None where all intervals are narrower. Without a baseline there are no speedups: then it is the baseline.
    """
    if not implementations[0].active:
        return implementations[0], None
    for one, interval in _speedups(implementations, clocks, clock, round_number):
        if interval is None or half_width(interval) > width:
            return one, interval
    return None


def verdicts(
    implementations: list[Participant], clocks: Clocks, clock: str, floor: float, round_number: int
) -> dict[str, Verdict]:
    """What the intervals of the speedups in one round allow to say, by active implementation.

    INCONCLUSIVE where there is no interval. Empty without a baseline.
    """
    if not implementations[0].active:
        return {}
    return {
        one.name: verdict(interval, floor) if interval else Verdict.INCONCLUSIVE
        for one, interval in _speedups(implementations, clocks, clock, round_number)
        if one.declared.role != "control"
    }


def _speedups(
    implementations: list[Participant], clocks: Clocks, clock: str, round_number: int
) -> Iterator[tuple[Participant, Estimate | None]]:
    """The active implementations, each with the interval of its speedup in one round."""

    def of_round(one: Participant) -> Blocks:
        blocks = clocks.blocks(one.observed.samples, clock, len(implementations))
        return blocks.only(blocks.rounds == round_number)

    top = of_round(implementations[0])
    for one in implementations[1:]:
        if one.active:
            yield one, ratio_interval(top, of_round(one))
