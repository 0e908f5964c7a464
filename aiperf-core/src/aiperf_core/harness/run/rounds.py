"""The rounds of a target's run: fresh processes, warm-up, passes until the sampling ends, and the checks afterwards."""

import math
import time
from functools import partial

from attrs import define, field

from aiperf_core.harness.run import sampler
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.censuses import Censuses
from aiperf_core.harness.run.durations import FINAL
from aiperf_core.harness.run.last_round import LastRound
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.progress import Progress
from aiperf_core.harness.run.taking import Clockwork
from aiperf_core.stats import clock_agreement, intervals
from aiperf_core.stats.decision import Decision, Shown

# Why sampling ended.
_NARROW, _DECIDED, _BUDGET_SPENT = "intervals narrow enough", "all verdicts decided", "sampling budget spent"
# The number of passes between two checks of the stopping rule, as a fraction of the passes already taken.
_CHECK_AGAIN = 0.25


@define
class Spent:
    """Where the time of the rounds went, in seconds."""

    setup_s: float = 0.0
    warmup_s: float = 0.0
    sampling_s: float = 0.0
    checks_s: float = 0.0
    clockwork: Clockwork = field(factory=Clockwork)


@define(eq=False)
class Rounds:
    """Runs the rounds of a target.

    stopped: why sampling ended.
    """

    bench: Bench
    progress: Progress
    censuses: Censuses
    spent: Spent = field(factory=Spent)
    stopped: str = "before sampling"

    def run(self, number: int) -> None:
        """Start fresh processes for all implementations, take samples, and end the processes."""
        bench, options, taking = self.bench, self.bench.setup.options, self.bench.sampler
        left, tell = self.progress.left, self.progress.tell
        started = time.monotonic() if number else self.progress.started
        taking.round_number = number
        self.progress.begin_round(number)
        tell("setup: start workers")
        bench.open_workers(number)
        for one in bench.active:
            tell("setup: prepare", one)
            bench.workers.prepare(one)
        prepared = time.monotonic()
        self.spent.setup_s += prepared - started
        left.enter("warm-up")
        taking.warm_up(lambda one: tell("warm-up", one))
        self.spent.warmup_s += time.monotonic() - prepared
        left.note_warm_pass(taking.shorten_blocks(options.round_budget_s, self._passes_for_intervals))
        self._sample()
        sampled = time.monotonic()
        left.enter("verification")
        self._verify(last=number == options.rounds - 1)
        self.spent.checks_s += time.monotonic() - sampled

    def _verify(self, *, last: bool) -> None:
        """Check what needs the processes of the round, and end them."""
        bench, options = self.bench, self.bench.setup.options
        for one in bench.active:
            self._run_steadily(one)
        if options.controls and bench.setup.guards("interleaved"):
            for one in bench.active:
                self.progress.tell("verification: sample alone", one)
                bench.sampler.extra.isolate(one, options.round_budget_s)
        bench.note_memory()
        if last and not bench.all_refused:  # the baseline's checks are for comparisons
            self.progress.left.enter(FINAL)
            telemetry, tell = bench.conditions.telemetry, self.progress.tell
            LastRound(bench.setup, bench.sampler, bench.participants, telemetry, tell).look()
        bench.workers.note_state(bench.active)
        bench.workers.end(bench.active)

    def _run_steadily(self, one: Participant) -> None:
        """Time calls without a pause by the supervisor's own clock, where it is too coarse for a single call."""
        setup, taking, brackets = self.bench.setup, self.bench.sampler, one.observed.samples.bracket_s
        # Deferred calls may not follow each other without a pause. An observer is no clock that needs another.
        if setup.plan.described.deferred or setup.trust.observed or not setup.guards("clocks_agree"):
            return
        if brackets and min(brackets) < clock_agreement.STEADY_S:
            self.progress.tell("verification: run without pauses", one)
            enough = partial(clock_agreement.fast_without_pauses, one.observed, taking.taker.method.clocks, setup.clock)
            taking.extra.run_steadily(one, clock_agreement.STEADY_S, enough)

    # --- passes

    @property
    def _passes_for_intervals(self) -> int:
        """Passes of a round, so that all rounds together have enough for an interval."""
        return max(sampler.MIN_PASSES, math.ceil(intervals.MIN_PASSES / self.bench.setup.options.rounds))

    @property
    def least_passes(self) -> int:
        """Passes of a round, whatever the budget: enough for an interval, and for the least number of samples."""
        options = self.bench.setup.options
        shortest = min((one.pace.block_length for one in self.bench.active), default=1)
        samples = math.ceil(options.min_samples / (options.rounds * shortest))
        return max(self._passes_for_intervals, samples)

    def _sample(self) -> None:
        self.progress.tell("sampling")
        start, setup, taking = time.monotonic(), self.bench.setup, self.bench.sampler
        self.progress.left.least_passes = self.least_passes
        self.progress.begin_sampling()
        self.bench.conditions.begin_round(self.bench.pids)
        # The time that warming up took belongs to the start.
        taking.taker.clockwork = self.spent.clockwork
        try:
            take = self._take_passes if setup.guards("interleaved") else self._take_sides
            self.stopped = take(start + setup.options.longest_round_s)
            self.progress.left.note_end_of_sampling(early=self.stopped == _NARROW)
            self.bench.conditions.end_round(self.bench.active, self.bench.pids)
        finally:
            self.spent.sampling_s += time.monotonic() - start
            taking.taker.clockwork = Clockwork()

    def _take_passes(self, until: float) -> str:
        """Take passes until the intervals are narrow, the verdicts decided, or the time is up; return which."""
        passes, check_at, options = 0, self.least_passes, self.bench.setup.options
        rule, budget_ends = options.stopping, time.monotonic() + options.round_budget_s
        decision = Decision(2 * check_at, not_before=budget_ends) if options.until_decided else None
        while self.bench.active:
            start = time.monotonic()
            self._take_pass(self.bench.active)
            self.progress.left.note_pass(time.monotonic() - start)
            passes += 1
            if passes >= check_at:
                self.progress.undecided = self._shown().undecided(rule.width)
                if self.progress.undecided is None:
                    return _NARROW
                check_at = passes + max(2, int(passes * _CHECK_AGAIN))
            if decision and decision.is_due(passes) and passes % 2 == 0:
                said = self._shown().verdicts(rule.floor)
                if decision.stands(said, passes):
                    return _DECIDED
            # An even number of passes completes the order A B B A.
            if passes >= self.least_passes and passes % 2 == 0 and time.monotonic() >= until:
                return _BUDGET_SPENT
        return "nothing to measure"

    def _shown(self) -> Shown:
        """What the samples of this round show so far."""
        bench, method = self.bench, self.bench.sampler.taker.method
        observed, active = [one.observed for one in bench.participants], {one.name for one in bench.active}
        return Shown(observed, active, method.clocks, method.clock, bench.sampler.round_number)

    def _take_pass(self, looked_at: list[Participant]) -> None:
        self.censuses.take(looked_at)
        self.bench.sampler.run_pass(self.progress.passes, self.progress.report)
        self.progress.passes += 1

    def _take_sides(self, until: float) -> str:
        """Take all passes of one implementation, then all of the next: for the proof of what taking turns guards."""
        first, most, active = self.progress.passes, 0, self.bench.active
        share_s, taking = (until - time.monotonic()) / max(1, len(active)), self.bench.sampler
        for one in active:
            passes, end = 0, time.monotonic() + share_s
            while one.active and (passes < self.least_passes or time.monotonic() < end):
                self.censuses.take([one])
                taking.run_pass(first + passes, self.progress.report, only=one)
                passes += 1
            most = max(most, passes)
        self.progress.passes = first + most
        return _BUDGET_SPENT
