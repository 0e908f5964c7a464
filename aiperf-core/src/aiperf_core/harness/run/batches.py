"""Batches: calls in a row of untrusted code on a GPU, each on values of its own, timed by the supervisor's clock.

The GPU's clock is read in the process that it times. A batch has no part of the clock there: the values lie in the
judge's memory while the process is stopped, it is released with the request, and it has answered when the outputs of
all calls lie in the judge's memory, where they are copied and compared. The batches of the baseline, in turns with
these, show what launching, copying and messages add.
"""

import math
import os

from attrs import define

from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.inspection import wrong_output
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import SampleTaker
from aiperf_core.measurements import Batch

# The intended length of a batch in seconds, beside which the time of a message does not matter; the most calls in one.
BATCH_S, MOST_CALLS = 0.02, 128
# The number of batches of each side, after one that is not counted.
BATCHES = 20


@define(eq=False)
class Batches:
    """Takes batches of the baseline and of one other implementation in turns."""

    taker: SampleTaker

    def take(self, baseline: Participant, one: Participant) -> None:
        """Take all batches, as long as both are in the run."""
        sides = (baseline, one)
        calls = self._open(sides)
        for number in range(1 + BATCHES):
            for side in sides if number % 2 == 0 else reversed(sides):
                batch = self._take_one(side, calls) if baseline.active and one.active else None
                if batch is None:
                    return
                if number:
                    side.observed.batches.append(batch)

    def _open(self, sides: tuple[Participant, ...]) -> int:
        """Make the memory for a batch and map it in both processes; return how many calls it has."""
        method = self.taker.method
        call_s = min(method.clocks.median(side.observed.samples, method.clock) or BATCH_S for side in sides)
        calls = max(1, min(MOST_CALLS, math.ceil(BATCH_S / max(call_s, 1e-9))))
        opened = self.taker.ask_judge("open_batch", calls=calls)
        fds = tuple(opened.pop("fds", ()))
        for side in sides:
            side.ask("open_batch", timeout=method.timeout_s, fds=fds, **opened)
        for fd in fds:
            os.close(fd)
        return int(opened["calls"])

    def _take_one(self, one: Participant, calls: int) -> Batch | None:
        """Take a batch and have its outputs compared; None where the implementation's part has ended."""
        try:
            batch, compared = self.taker.take_batch(one, calls)
        except (ChildError, ValueError) as error:
            one.fail(error, "sent no batch")
            return None
        wrong = wrong_output(one, compared, "in calls without a pause: ")
        return None if wrong is not None and one.find(wrong) else batch
