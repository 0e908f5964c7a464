"""The rounds of a target's run: fresh processes, warm-up, passes until the sampling ends, and the checks afterwards."""

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import Factory, define, evolve, field

from aiperf_core.harness.isolation.process_monitor import ProcessMonitor
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run import sampler
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.conditions import Censuses, EnergyPlan, measure_energy
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.progress import FINAL, Progress
from aiperf_core.harness.run.setup import Setup
from aiperf_core.harness.run.taking import Clockwork
from aiperf_core.measurements import Rank
from aiperf_core.results.models import Sighting, Verdict
from aiperf_core.stats import clock_agreement, intervals
from aiperf_core.stats.conditions import warm_after_flush
from aiperf_core.stats.decision import Decision, Shown
from aiperf_core.stats.judge import suspicion

# Why sampling ended.
_SEEDS = "all seeds simulated"
_NARROW, _DECIDED, _BUDGET_SPENT = "intervals narrow enough", "all verdicts decided", "sampling budget spent"
# The number of passes between two checks of the stopping rule, as a fraction of the passes already taken.
_CHECK_AGAIN = 0.25
# CUPTI starts in seconds, and in many where every process of a busy machine starts it at once.
_CUPTI_TIMEOUT_S = 180.0


@define(eq=False)
class Rounds:
    """Runs the rounds of a target.

    spent: where the time of all rounds went.
    stopped: why sampling ended.
    """

    bench: Bench
    progress: Progress
    censuses: Censuses
    spent: Clockwork = field(factory=Clockwork)
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
        left.warm_pass_s = taking.shorten_blocks(options.round_budget_s, self._passes_for_intervals)
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
        if options.controls and bench.setup.guards("interleaved") and not bench.setup.simulated:
            for one in bench.active:
                self.progress.tell("verification: sample alone", one)
                bench.extra.isolate(one, options.round_budget_s)
        bench.note_memory()
        if last and not bench.all_refused:  # the baseline's checks are for comparisons
            self.progress.left.enter(FINAL)
            LastRound(bench, self.progress.tell).look()
        bench.workers.note_state(bench.active)
        bench.workers.end(bench.active)

    def _run_steadily(self, one: Participant) -> None:
        """Time calls without a pause by the supervisor's own clock, where it is too coarse for a single call."""
        setup, method, brackets = self.bench.setup, self.bench.taker.method, one.observed.samples.bracket_s
        # Deferred calls may not follow each other without a pause. An observer is no clock that needs another.
        described = setup.plan.described
        if described.deferred or described.simulated or setup.trust.observed or not setup.guards("clocks_agree"):
            return
        if brackets and min(brackets) < clock_agreement.STEADY_S:
            self.progress.tell("verification: run without pauses", one)
            enough = partial(clock_agreement.fast_without_pauses, one.observed, method.clocks, setup.clock)
            self.bench.extra.run_steadily(one, clock_agreement.STEADY_S, enough)

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
        start, setup, taker = time.monotonic(), self.bench.setup, self.bench.taker
        self.progress.left.least_passes = self.least_passes
        self.progress.begin_sampling()
        self.bench.conditions.begin_round(self.bench.pids)
        # The time that warming up took belongs to the start.
        taker.clockwork = self.spent
        try:
            take = self._take_passes if setup.guards("interleaved") else self._take_sides
            self.stopped = take(start + setup.options.longest_round_s)
            self.progress.left.stopped_early = self.stopped == _NARROW
            self.bench.conditions.end_round(self.bench.active, self.bench.pids)
        finally:
            self.spent.sampling_s += time.monotonic() - start
            taker.clockwork = Clockwork()

    def _take_passes(self, until: float) -> str:
        """Take passes until the intervals are narrow, the verdicts decided, or the time is up; return which."""
        passes, check_at, options = 0, self.least_passes, self.bench.setup.options
        rule, budget_ends = options.stopping, time.monotonic() + options.round_budget_s
        decision = Decision(2 * check_at, not_before=budget_ends) if options.until_decided else None
        simulated = self.bench.setup.simulated
        seeds = math.ceil(simulated.seeds / options.rounds) if simulated else math.inf
        while self.bench.active:
            if passes >= seeds:
                return _SEEDS
            start = time.monotonic()
            self.censuses.take(self.bench.active)
            self.bench.sampler.run_pass(self.progress.passes, self.progress.report)
            self.progress.passes += 1
            self.progress.left.note_pass(time.monotonic() - start)
            passes += 1
            if simulated:
                continue
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
        """Estimates from the samples of this round so far."""
        bench, method = self.bench, self.bench.taker.method
        observed, active = [one.observed for one in bench.participants], {one.name for one in bench.active}
        return Shown(observed, active, method.clocks, method.clock, bench.sampler.round_number)

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


@define(eq=False)
class LastRound:
    """The checks that need the workers and are made once: suspicions, repeated values, CUPTI, ranks, energy, floors.

    tell: called at the start of each step, with its implementation if it has one.
    """

    bench: Bench
    tell: Callable[[str, Participant | None], None]
    setup: Setup = field(init=False, default=Factory(lambda self: self.bench.setup, takes_self=True))

    def look(self) -> None:
        """Look at all that are active: at a candidate with CUPTI too, and with controls at the rest."""
        options, baseline = self.setup.options, self.bench.baseline
        if self.setup.simulated:
            return
        suspect = options.controls or self.setup.untrusted
        if self.setup.plan.world_size:
            self._note_communication()
        if options.controls and self.setup.cold:
            self._probe_flush()
        for one in self.bench.active[1:] if self.setup.resamples and baseline.active else ():
            self.tell("verification: resample", one)
            self.bench.extra.resample(baseline, one, partial(self.suspicion, one))
        # Of calls in a row only the first has refreshed inputs: code that remembers gains by the others in every tier.
        variants = [one for one in self.bench.active if one.declared.role == "variant"]
        self.repeat([one for one in variants if suspect or one.pace.calls > 1])
        for one in variants if self.setup.in_batches and baseline.active else ():
            self.tell("verification: calls in a row", one)
            self.bench.extra.take_batches(baseline, one)
        if self.setup.kind.audited and options.at_end.audit and suspect:
            self._audit()
        if self.setup.plan.world_size:
            for one in self.bench.active:
                one.recorder.note(no_energy="not measured for several ranks")
        elif options.controls and options.at_end.energy:
            self._measure_energy()
        # At the end: code that fails at sizes beyond its own may leave a device that does no more work.
        for one in self.bench.active if self.setup.floors else ():
            self._measure_floor(one)

    def _measure_floor(self, one: Participant) -> None:
        """Time an implementation at the sizes of the host floor."""
        if one.declared.role == "control":
            return
        self.tell("verification: time the host floor", one)
        described = self.setup.plan.described
        timeout = max(self.setup.options.timeout_s, described.prepare_timeout_s)
        measured = one.ask("floor", answers.floor, timeout=timeout, sizes=described.floor)
        if measured is not None:
            times_s, reason = measured
            one.recorder.note(floor_samples_s=times_s, no_floor=reason)

    def suspicion(self, one: Participant) -> clock_agreement.Suspicion | None:
        """The suspicion for which an implementation is resampled before a finding."""
        return suspicion(self.bench.baseline.observed, one.observed, self.setup.judging)

    def repeat(self, implementations: list[Participant]) -> None:
        """Sample repeated values; of the baseline too where an implementation is faster on them."""
        for one in implementations:
            self._repeat_one(one)
        if self.bench.baseline.active and any(one.process.gains_by_repeating for one in implementations):
            self._repeat_one(self.bench.baseline)

    def _repeat_one(self, one: Participant) -> None:
        self.tell("verification: repeat values", one)
        self.bench.extra.repeat(one)

    def _note_communication(self) -> None:
        """Have every rank make a call in which its collectives are counted, and keep what each rank did."""
        for one in self.bench.active:
            sent_by_ranks = one.ask("collectives", answers.collectives, timeout=self.setup.options.timeout_s)
            if sent_by_ranks is None:
                continue
            ranks, taken, kind = one.recorder.ranks, one.observed.samples, self.setup.kind
            kept = zip(ranks.times_s, taken.device_s, taken.calls, strict=True)
            on_device = self.setup.clock == "device"
            samples = [(each, calls) for each, device, calls in kept if (device is not None) == on_device]
            places = self._places(one)
            for number, sent in enumerate(sent_by_ranks):
                # A GPU's rank is at work until its last kernel is done. On a processor a rank that waits uses no time.
                times_s = [(min(each[number]) if kind.on_host else each[number][0]) / n for each, n in samples]
                place = {"device": kind.place(number), **places.get(number, {})}
                ranks.did.append(Rank(rank=number, work_s=statistics.median(times_s), **sent, **place))
            one.recorder.note(ranks=ranks.records())

    def _places(self, one: Participant) -> dict[int, dict[str, Any]]:
        """The processors that each rank on this machine may use, and the GPUs on which the driver lists it."""
        if not isinstance(one.child, RankGroup):
            return {}
        nvml, found = self.bench.conditions.telemetry.nvml, {}
        for number, pid in zip(one.child.numbers_here, one.child.pids, strict=True):
            with contextlib.suppress(OSError):  # its end is found by the next request
                gpus = ProcessMonitor(pid).gpus(nvml) if nvml else None
                found[number] = {"processors": tuple(sorted(os.sched_getaffinity(pid))), "gpus": gpus}
        return found

    def _probe_flush(self) -> None:
        """See whether a flush empties the cache in the implementations' own processes."""
        for one in self.bench.active:
            self.tell("verification: probe the flush", one)
            flush = one.ask("probe_flush", answers.flush, timeout=self.setup.options.timeout_s)
            one.recorder.note(flush=flush)
            if flush is not None and (warm := warm_after_flush(flush)):
                one.find(warm)

    # --- CUPTI

    def _audit(self) -> None:
        """Have CUPTI look at a few calls of each, and compare the clocks."""
        self.tell("verification: start CUPTI", None)
        for one in self.bench.active:
            one.post("start_audit")
        audited = [one for one in self.bench.active if self._audit_one(one)]
        if self.setup.guards("clocks_agree"):
            for one in audited:
                if one.active:
                    self._compare_clocks(one)

    def _compare_clocks(self, one: Participant) -> None:
        """Find that the clocks of an implementation disagree. Calls of trusted code are audited again before that.

        Other work on the machine can disturb most of so few calls. No sample is replaced: a row gains nothing by it.
        Calls of a candidate are not audited again: it could tell the truth at random, and would have two tries.
        """
        disagreement = self._disagreement(one)
        refused = disagreement is not None and disagreement.verdict is Verdict.UNTRUSTED
        if refused and not self.setup.source_of(one.declared) and self._audit_again(one):
            disagreement = self._disagreement(one)
        if disagreement is not None and one.active:
            one.find(disagreement)

    def _disagreement(self, one: Participant) -> Sighting | None:
        audit = one.observed.audit
        assert audit is not None
        vouches = None if self.setup.source_of(one.declared) else partial(self._slowed_by_profiler, one)
        clocks = self.bench.taker.method.clocks
        return clock_agreement.compare(self.bench.baseline.observed, one.observed, clocks, audit, vouches)

    def _audit_again(self, one: Participant) -> bool:
        """Let CUPTI look at an implementation again; tell whether it did. Strays and threads of the first time stay."""
        first = one.observed.audit
        one.post("start_audit")
        if first is None or not one.active or not self._audit_one(one):
            return False
        audit = one.observed.audit
        assert audit is not None
        strays, threads = first.stray + audit.stray, max(first.threads, audit.threads)
        one.recorder.note(audit=evolve(audit, stray=strays, threads=threads, retaken=first.retaken + 1))
        return True

    def _audit_one(self, one: Participant) -> bool:
        """Whether CUPTI looked at an implementation. One that failed is out of the run."""
        timeout = self.setup.options.timeout_s
        try:
            one.worker.collect(timeout=max(timeout, _CUPTI_TIMEOUT_S))
            self.tell("verification: audit", one)
            calls, flush = clock_agreement.AUDITED_CALLS, self.setup.cold
            answer = one.worker.ask("audit", timeout=timeout, calls=calls, flush=flush)
            if self.setup.plan.world_size:
                one.recorder.ranks.audits = [answers.audit(each) for each in answer]
                audit = clock_agreement.slowest(one.recorder.ranks.audits)
            else:
                audit = answers.audit(answer)
            one.recorder.note(audit=audit)
            return True
        except (ChildError, ValueError) as error:
            if isinstance(error, ChildError) and error.kind == "skip":
                if self.setup.guards("cupti_ledger"):
                    one.find(Sighting("timing.not_audited", f"{one.name} could not be audited: {error}"))
            else:
                one.fail(error, "sent an audit that cannot be read")
            return False

    def _slowed_by_profiler(self, one: Participant) -> float | None:
        self.tell("verification: run under CUPTI", one)
        return clock_agreement.slowed(one.observed, self.bench.extra.run_profiled(one))

    # --- energy

    def _measure_energy(self) -> None:
        for one in self.bench.active:
            if one.declared.role == "control":
                continue
            self.tell("verification: measure energy", one)
            try:
                energy = measure_energy(partial(self._steady, one), self.bench.conditions.telemetry, EnergyPlan())
            except ChildError:
                continue  # the sampler has taken it out
            if isinstance(energy, str):
                one.recorder.note(no_energy=energy)
            else:
                one.recorder.note(energy=energy)

    def _steady(self, one: Participant, seconds: float) -> tuple[int, float]:
        """Make calls without a pause for so long; how many, and how long they took."""
        each = [run.bracket_s / run.calls for run in one.observed.steady] or one.observed.samples.bracket_s
        calls = max(1, math.ceil(seconds / statistics.median(each)))
        taken = self.bench.taker.bracket_steady(one, calls)
        if taken is None:
            raise ChildError("exited", "ended")
        return calls, taken
