"""When sampling that goes on until it is decided may stop.

Who looks at an interval again and again will see it clear a limit by chance. So verdicts are looked at only when the
passes have doubled since the last look, and stand only where two looks in a row agree: half of the second look's passes
are new.
"""

import time
from collections.abc import Mapping

from attrs import define, field

from aiperf_core.results.models import Verdict


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
