"""Samples beside the passes, not counted: alone, of a suspect, with repeated values, without a pause, in batches."""

import math
import os
import time
from collections.abc import Callable
from statistics import median

from attrs import define

from aiperf_core.devices.telemetry import waiting_s
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import SampleTaker, wrong_output
from aiperf_core.measurements import Answer, Batch, Bracketed, Resampled, Steady
from aiperf_core.stats.clock_agreement import LEAST_TESTED
from aiperf_core.stats.observations import held_s

# Samples of an implementation alone in one round, and their time: the smaller of the share of the round's budget and
# the limit.
MIN_ISOLATED, MAX_ISOLATED, ISOLATED_SHARE, ISOLATED_S = 6, 200, 0.1, 0.2
# Samples that are taken of a suspect before a finding, and for about how long; for longer while they are too few for
# one.
LEAST_RESAMPLED, MOST_RESAMPLED, RESAMPLING_S, MOST_RESAMPLING_S = 8, 128, 2.0, 20.0
# Calls of a series that repeat values; more series where they are faster by so much, as a busy machine can make a few.
_REPETITIONS, _MOST_SERIES, _FASTER = 5, 6, 0.8
_MOST_STEADY, _STEADY_STEP, _STEADY_RUNS = 1 << 20, 8, 5
# The intended length of a batch in seconds, beside which the time of a message does not matter; the most calls in one.
BATCH_S, MOST_CALLS = 0.02, 128
# The number of batches of each side, after one that is not counted.
BATCHES = 20


@define(eq=False)
class ExtraSamples:
    """Takes samples that are not counted, for guards and controls."""

    taker: SampleTaker

    def isolate(self, one: Participant, round_budget_s: float) -> None:
        """Take samples of one implementation without the others in between, to see whether taking turns disturbs it."""
        until = time.monotonic() + min(ISOLATED_S, ISOLATED_SHARE * round_budget_s)
        for taken in range(MAX_ISOLATED):
            if not one.active or (taken >= MIN_ISOLATED and time.monotonic() >= until):
                return
            sample = self.taker.take(one)
            if sample is None or not self.taker.is_plausible(one, sample) or not self.taker.inspect(one, None):
                return
            one.observed.isolated_samples_s.append(self.taker.method.call_s(sample, one.pace.calls))

    def resample(self, baseline: Participant, one: Participant, suspected: Callable[[], object]) -> None:
        """Take samples that are not counted of a suspect and of the baseline in turns, while the suspicion holds.

        On a busy machine answers are late by chance, but not all samples, and the baseline's are as late. The time
        between request and answer in which others kept the process, or the supervisor, from running is taken off.

        Of untrusted code, work of the process's own threads is no excuse, and a sample of which more would be taken off
        than there is says nothing.
        """
        if not suspected():
            return
        again = Resampled()
        one.recorder.note(resampled=again)
        watchers = [process_monitor.ProcessMonitor(side.worker.pid) for side in (baseline, one)]
        began = time.monotonic()
        for number in range(MOST_RESAMPLED):
            until = began + (RESAMPLING_S if number >= LEAST_TESTED else MOST_RESAMPLING_S)
            if number >= LEAST_RESAMPLED and (not suspected() or time.monotonic() >= until):
                return
            answers, brackets = (again.baseline, again.own), (again.baseline_brackets, again.own_brackets)
            for side, both, looked_at, watcher in zip(answers, brackets, (baseline, one), watchers, strict=True):
                sample = self.taker.take(looked_at, watcher=watcher)
                if sample is None or not self.taker.inspect(looked_at, None):
                    return
                self._keep_resampled(looked_at, sample, side, both)

    def _keep_resampled(
        self, one: Participant, sample: Sample, answers: list[Answer], brackets: list[Bracketed]
    ) -> None:
        """Keep an uncounted sample without the time in which others kept the processes from running."""
        waited_s, own_s = sample.kept_waiting_s
        wall_s, bracket_s = sample.wall_s, sample.bracket_s - own_s
        trust = self.taker.method.trust
        if wall_s is not None and trust.says_something(bracket_s - wall_s):
            brackets.append(Bracketed(wall_s, max(0.0, bracket_s)))
        done_s = sample.until_done_s if one.recorder.deferred else None
        held = held_s(wall_s, sample.device_s, sample.bracket_s, done_s)
        assert sample.answered_s is not None
        beside_s, begun_s = sample.answered_s - held - waited_s - own_s, sample.begun_s
        if begun_s is not None:
            begun_s = max(0.0, begun_s - waited_s - own_s)
        if trust.says_something(beside_s):
            answered_s = held + max(0.0, beside_s)
            answers.append(Answer(held, begun_s, answered_s))

    def repeat(self, one: Participant) -> None:
        """Take samples with refreshed inputs, and samples that repeat the inputs of the last of these.

        Code that remembers is faster with repeated inputs; where a few calls are, many more are taken. The order is
        drawn: other work may slow every second sample. Of several calls in a row only the first would be refreshed.
        """
        present = 0
        for number in range(_MOST_SERIES):
            series = [True, False] * _REPETITIONS
            self.taker.rng.shuffle(series)
            if not number:  # there is nothing to repeat yet
                series.insert(0, series.pop(series.index(True)))
            for fresh in series:
                seed = None if fresh else present
                # Written again even if they are the same: renewing must do the same to caches and clocks.
                self.taker.present = None
                sample = self.taker.take(one, seed, fresh=fresh, calls=1)
                if sample is None or not self.taker.inspect(one, None):
                    return
                present = self.taker.present or 0
                (one.process.fresh_s if fresh else one.process.repeated_s).append(self.taker.method.call_s(sample, 1))
            if median(one.process.repeated_s) >= _FASTER * median(one.process.fresh_s):
                return

    def run_steadily(self, one: Participant, least_s: float, enough: Callable[[], bool]) -> None:
        """Time calls without a pause by the supervisor's clock, once and up to a few times, for at least `least_s`.

        enough: whether the runs so far answer what they are made for.
        """
        calls = max(1, one.pace.calls)
        for _ in range(_STEADY_RUNS):
            before = waiting_s(one.worker.pid)
            taken = self.taker.bracket_steady(one, calls)
            while taken is not None and taken < least_s and calls < _MOST_STEADY:
                # A supervisor that reads both notices late sees almost no time between them: the steps are limited.
                wanted = math.ceil(1.2 * calls * least_s / max(taken, 1e-9))
                calls = min(_MOST_STEADY, _STEADY_STEP * calls, max(2 * calls, wanted))
                before = waiting_s(one.worker.pid)
                taken = self.taker.bracket_steady(one, calls)
            if taken is None:
                return
            after = waiting_s(one.worker.pid)
            waited = None if before is None or after is None else max(0.0, after - before)
            one.observed.steady.append(Steady(calls, taken, waited))
            if enough():
                return

    def run_profiled(self, one: Participant) -> list[Steady]:
        """The same runs under CUPTI: the same number of calls without a pause."""
        runs = []
        for _ in range(_STEADY_RUNS if one.observed.steady else 0):
            calls = one.observed.steady[-1].calls
            taken = self.taker.bracket_steady(one, calls, profiled=True)
            if taken is None:
                break
            runs.append(Steady(calls, taken))
        return runs

    # --- batches

    def take_batches(self, baseline: Participant, one: Participant) -> None:
        """Take batches of the baseline and of another implementation in turns, as long as both are in the run.

        A batch is calls in a row of untrusted code on a GPU, each on values of its own, timed by the supervisor, since
        the GPU's clock is read in the process that it times. The values lie in the judge's memory while the process is
        stopped, it is released with the request, and it has answered when the outputs of all calls lie in the judge's
        memory, where they are copied and compared. The baseline's batches show what launching, copying and messages
        add.
        """
        sides = (baseline, one)
        calls = self._open_batch(sides)
        for number in range(1 + BATCHES):
            for side in sides if number % 2 == 0 else reversed(sides):
                batch = self._take_batch(side, calls) if baseline.active and one.active else None
                if batch is None:
                    return
                if number:
                    side.observed.batches.append(batch)

    def _open_batch(self, sides: tuple[Participant, ...]) -> int:
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

    def _take_batch(self, one: Participant, calls: int) -> Batch | None:
        """Take a batch and have its outputs compared; None where the implementation's part has ended."""
        try:
            batch, compared = self.taker.take_batch(one, calls)
        except (ChildError, ValueError) as error:
            one.fail(error, "sent no batch")
            return None
        wrong = wrong_output(one, compared, "in calls without a pause: ")
        return None if wrong is not None and one.find(wrong) else batch
