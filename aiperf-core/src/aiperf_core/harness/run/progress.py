"""Reports of how far a target's run is."""

import math
import time

from attrs import asdict, define

from aiperf_core import events
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.durations import TimeLeft
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup
from aiperf_core.measurements import Estimate

_REPORT_EVERY_S = 1.0


@define(eq=False)
class Progress:
    """Tells a reporter of phases and of progress.

    started: the start of the run, by `time.monotonic`.
    round: the round of fresh processes, from 1; None before the first.
    passes: passes that were taken, in all rounds.
    undecided: the name of the implementation whose interval is not narrow enough yet, with that interval.
    """

    setup: Setup
    conditions: Conditions
    left: TimeLeft
    started: float
    round: int | None = None
    passes: int = 0
    undecided: tuple[str, Estimate | None] | None = None
    _reported: float = -math.inf

    def tell(self, phase: str, one: Participant | None = None) -> None:
        """A phase, or a step of a phase, begins."""
        self.setup.reporter.phase(phase, one.name if one else None)
        self.setup.reporter.progress(self._state(phase, one))

    def begin_round(self, number: int) -> None:
        """A round begins, numbered from 0."""
        self.round = number + 1
        self.left.begin_round(number)

    def begin_sampling(self) -> None:
        """No pass of this round was taken yet."""
        self._reported, self.undecided = -math.inf, None
        self.left.begin_sampling()

    def report(self, one: Participant) -> None:
        """A block of an implementation begins. A thousand blocks may take a second; a report takes a part of it."""
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self.tell("sampling", one)

    def _state(self, phase: str, one: Participant | None) -> events.Progress:
        left, elapsed = self.left.seconds_left, time.monotonic() - self.started
        waiting, interval = self.undecided or (None, None)
        device = self.conditions.state
        return events.Progress(
            target=self.setup.plan.name,
            phase=phase,
            implementation=one.name if one else None,
            seconds_left=left,
            share=elapsed / max(elapsed + left, 1e-9),
            samples=len(one.observed.samples.step) if one else 0,
            undecided=waiting,
            interval=(interval.low, interval.high) if interval else None,
            wanted=self.setup.options.stopping.width,
            round=self.round,
            rounds=self.setup.options.rounds,
            block=self.passes,
            **(asdict(device) if device else {}),
        )
