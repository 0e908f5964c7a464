"""The witness of a processor: a fixed loop of integer arithmetic, timed right before a call by the caller's clock.

Only the processor decides how long the loop takes: it touches no memory beyond its first cache and calls no kernel. A
busy sibling thread, a lower clock or a lost time slice lengthens it as they lengthen the host's part of a call.
"""

import bisect
import time

from attrs import define, field

# A turn is a power modulo a prime, which Python's integers compute in C: some 20 to 40 us.
_BASE, _EXPONENT, _MODULUS = 3**150, (1 << 64) - 59, (1 << 255) - 19
# A turn is expected to take this long while its quiet time is unknown.
USUAL_TURN_S = 30e-6
# The loop takes this share of a sample, at most LONGEST_S, and is skipped where a turn takes more.
SHARE, LONGEST_S = 0.02, 0.001
# How often the loop is run before a call, at most, until the processor is quiet.
TRIES = 4
# The share of the turns before samples that are taken to be those of a quiet processor. A few are quicker than all
# calls can be: another process may just have kept the clock of an idle processor up.
QUICKEST, _LEAST_READINGS = 0.1, 10


def turn_s(turns: int) -> float:
    """Run the loop; return the seconds of a turn."""
    start = time.perf_counter_ns()
    for _ in range(turns):
        pow(_BASE, _EXPONENT, _MODULUS)
    return (time.perf_counter_ns() - start) / turns / 1e9


def await_quiet(turns: int, at_most_s: float | None) -> float:
    """Run the loop until a turn takes at most so long, `TRIES` times at most; return the seconds of its last turns."""
    last_s = turn_s(turns)
    for _ in range(TRIES - 1):
        if at_most_s is None or last_s <= at_most_s:
            break
        last_s = turn_s(turns)
    return last_s


@define
class Quiet:
    """The quiet time of the loop on a machine.

    kept_s: the seconds of a quiet turn, as earlier runs saw it; None where there was none.
    """

    kept_s: float | None = None
    _readings: list[float] = field(factory=list, init=False)

    def note(self, seen_s: float) -> None:
        """Keep the seconds of a turn that ran before a sample, as those of all samples run: by a process that slept."""
        bisect.insort(self._readings, seen_s)

    @property
    def turn_s(self) -> float | None:
        """The seconds of a quiet turn; None before enough were seen."""
        count = len(self._readings)
        own_s = self._readings[int(QUICKEST * count)] if count >= _LEAST_READINGS else None
        return min(filter(None, (own_s, self.kept_s)), default=None)

    def turns(self, sample_s: float) -> int:
        """The turns before a sample that takes so long in all; 0 where even one would take too large a share."""
        return int(min(SHARE * sample_s, LONGEST_S) / (self.turn_s or USUAL_TURN_S))
