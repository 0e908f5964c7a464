"""One target's run, from its declarations to its result: start the judge and the workers, sample, check, decide."""

import math
import os
import random
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import asdict, astuple, define, evolve, field

from aiperf_core.described import DescribedImplementation
from aiperf_core.devices import environment
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.executor import BUILT_IN
from aiperf_core.harness.isolation.mapped_code import mapped
from aiperf_core.harness.isolation.process_monitor import WATCH_S, ProcessMonitor
from aiperf_core.harness.isolation.scratch import MOST_BYTES
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run import sampler
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.decision import Decision
from aiperf_core.harness.run.durations import FINAL, TimeLeft
from aiperf_core.harness.run.evidence import apply_findings, evidence_of
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.harness.run.last_round import LastRound
from aiperf_core.harness.run.options import COMPILING
from aiperf_core.harness.run.sampler import Clockwork, JudgeError, Sampler, undecided, verdicts
from aiperf_core.harness.run.setup import SamplingState, Setup
from aiperf_core.harness.run.workers import Workers
from aiperf_core.measurements import Estimate, Memory
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Overhead, Problem, TargetResult, Verdict
from aiperf_core.stats import clock_agreement, intervals
from aiperf_core.stats.speed_of_light import cost_of, groups_used
from aiperf_core.stats.verdicts import Scoring
from aiperf_core.validity.assess import assess, built_in
from aiperf_core.validity.policy import Policy

# How often a worker's process is looked at between its blocks, each round.
_CENSUSES = 4
# Why sampling ended.
_NARROW, _DECIDED, _BUDGET_SPENT = "intervals narrow enough", "all verdicts decided", "sampling budget spent"
_REPORT_EVERY_S = 1.0
# The stopping rule is checked again after so many more passes, as a part of those already taken.
_CHECK_AGAIN = 0.25
# What rows say where the worker's process renews its own inputs (see `shared_buffers`), by the guards that this
# weakens.
_IN_PROCESS = {
    "fresh_values": "the implementation's own process copies refreshed inputs to the device, and could keep old ones",
    "inputs_intact": "the implementation's own process reports its inputs after a call",
}


@define(eq=False)
class TargetRun:
    """A target's run. `execute` may be called once.

    interrupted: whether Ctrl-C ended the measuring.
    """

    setup: Setup
    interrupted: bool = field(default=False, init=False)
    _implementations: list[ImplementationRun] = field(factory=list, init=False)
    _opened: dict[str, Any] | None = field(default=None, init=False)
    _sampler: Sampler | None = field(default=None, init=False)
    _stopped: str = field(default="before sampling", init=False)
    _started: float = field(factory=time.monotonic, init=False)
    _sampling_s: float = field(default=0.0, init=False)
    _setup_s: float = field(default=0.0, init=False)
    _spent: Clockwork = field(factory=Clockwork, init=False)
    _passes: int = field(default=0, init=False)
    _warmup_s: float = field(default=0.0, init=False)
    _checks_s: float = field(default=0.0, init=False)
    _drawn: float = field(default=-math.inf, init=False)
    _undecided: tuple[ImplementationRun, Estimate | None] | None = field(default=None, init=False)
    _left: TimeLeft = field(init=False)
    _fds: tuple[int, ...] = field(default=(), init=False)
    _facts: dict[str, Any] = field(factory=dict, init=False)
    _monitors: dict[str, ProcessMonitor] = field(factory=dict, init=False)
    _costs: dict[str, float] = field(factory=dict, init=False)
    _conditions: Conditions = field(init=False)
    _workers: Workers = field(init=False)
    _rng: random.Random = field(init=False)
    _first_seed: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open what the whole run uses."""
        self._conditions, self._workers = Conditions(self.setup.kind), Workers(self.setup)
        # An untrusted candidate must not be able to compute its values from those that it has seen.
        self._rng = random.SystemRandom() if self.setup.untrusted else random.Random(self.setup.seed)
        self._first_seed = self._rng.getrandbits(62)
        options = self.setup.options
        # Samples of a pass are not known yet: at least one of each implementation.
        passes = max(self._least_passes, math.ceil(options.min_samples / options.rounds))
        self._left = TimeLeft(options.rounds, options.round_budget_s, passes, self.setup.before)

    @property
    def durations(self) -> dict[str, float] | None:
        """What the phases took, for estimates of later runs; None where the run did not come to its end."""
        return None if self.interrupted or not self._active else self._left.found

    def execute(self) -> TargetResult:
        """Measure the target, in rounds of fresh processes. Ctrl-C ends the measuring and keeps what was measured.

        Raises `AiperfError` where the workload itself is at fault and nothing can be measured.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        judge = None
        try:
            judge = self._start()
            for number in range(self.setup.options.rounds):
                self._run_round(number)
        except KeyboardInterrupt:
            self.interrupted, self._stopped = True, "interrupted"
        except JudgeError as error:
            raise AiperfError(f"{self.setup.target.name!r} could not be judged: {error}") from None
        finally:
            self._close(judge)
        if self._opened is None or self._sampler is None:
            raise KeyboardInterrupt
        return self._result(created)

    @property
    def sampler(self) -> Sampler:
        """What takes the samples, once the judge has opened."""
        assert self._sampler is not None
        return self._sampler

    @property
    def _active(self) -> list[ImplementationRun]:
        return [one for one in self._implementations if one.active]

    # --- starting

    def _start(self) -> Child:
        """Start the judge and the first workers, which import and open the device side by side; return the judge."""
        setup = self.setup
        self._tell("setup: make inputs")
        self._implementations = [self._implementation(one) for one in setup.implementations()]
        if setup.options.controls:
            self._implementations.append(_control(self._implementations[0]))
        judge = setup.server.spawn("judge", "judge", setup.log_path("judge"))
        judge.post(
            "open",
            target={"name": setup.target.name, "module": setup.target.module},
            device=asdict(setup.device),
            params=setup.params,
            seed=self._first_seed,
            static_seed=self._rng.getrandbits(62),
            off=sorted(setup.options.off),
            tolerance=asdict(setup.options.tolerance) if setup.options.tolerance else None,
        )
        self._workers.spawn(self._active)
        self._facts = environment.facts(setup.device.name)  # while the others are busy
        try:
            self._opened = judge.collect(timeout=setup.options.timeout_s * (COMPILING if setup.foreign else 1))
        except ChildError as error:
            judge.kill()
            text = str(error)
            if error.kind == "skip":
                raise SkipError(text) from None
            sizes = ", ".join(f"{name}={value:g}" for name, value in setup.params.items())
            named = setup.target.name in text or (setup.foreign and error.kind == "mistake")
            where = "" if named else f"{setup.target.name!r} could not be set up at {sizes or 'its only size'}: "
            hint = " Try smaller sizes with --set." if error.kind == "memory" else ""
            raise AiperfError(f"{where}{text}{hint}") from None
        judge.paused = setup.pausing
        self._sampler = self._sampling(judge, self._opened)
        self._fds = tuple(self._opened.pop("fds", ()))
        return judge

    def _implementation(self, declared: DescribedImplementation) -> ImplementationRun:
        setup, ours = self.setup, Policy().severities
        policy = Policy(setup.options.policy, {**setup.options.severities, **ours})
        one = ImplementationRun(declared, declared.name, policy)
        if not setup.kind.shares_memory:
            one.not_observed.update(_IN_PROCESS)
        if not setup.kind.has_ceilings:
            one.not_observed["faster_than_light"] = f"nothing is known of what {setup.device.name!r} reaches"
        reason = next(filter(None, (lacking(text, setup.hardware) for text in declared.requires)), None)
        if reason:
            one.stop(Verdict.SKIPPED, reason)
        return one

    def _sampling(self, judge: Child, opened: dict[str, Any]) -> Sampler:
        """Decide how samples are taken."""
        setup = self.setup
        ceilings = setup.ceilings(False) if setup.kind.clock else None
        # What each clock adds to a sample, as measured by processes that run no candidate's code.
        if setup.kind.clock is None:
            self._costs = {"wall": opened["clock_cost_s"]}
        elif ceilings and ceilings.event_overhead_s:
            self._costs = {"device": ceilings.event_overhead_s}
        for one in self._implementations:
            one.clock_cost_s, one.deferred = self._costs, setup.described.deferred
            one.deadline_s = setup.params["deadline_s"] if setup.described.served else None
            if ceilings and ceilings.event_step_s:
                one.clock_step_s = {"device": ceilings.event_step_s}
        return Sampler(
            judge,
            self._implementations,
            clock=setup.clock,
            clock_cost_s=self._costs.get(setup.clock, 0.0),
            both_clocks=setup.kind.clock is not None,
            has_state=opened["has_state"],
            cold=setup.cold,
            first_seed=self._first_seed,
            off=setup.options.off,
            untrusting=setup.untrusted,
            fingerprints=setup.kind.fingerprints,
            timeout_s=setup.options.timeout_s,
            rng=self._rng,
            after_block=lambda one: self._conditions.read(one, self._pids),
        )

    # --- a round

    def _run_round(self, number: int) -> None:
        """Start fresh processes for all implementations, take samples, and end the processes."""
        assert self._opened is not None
        started = time.monotonic() if number else self._started
        options, sampler = self.setup.options, self.sampler
        sampler.round_number = number
        self._left.begin_round(number)
        self._tell("setup: start workers")
        if number > 0:
            self._workers.spawn(self._active)
        self._workers.open(self._active, self._opened["problem"], self._fds)
        for one in self._active:
            self._tell("setup: prepare", one)
            self._workers.prepare(one)
        prepared = time.monotonic()
        self._setup_s += prepared - started
        self._left.enter("warm-up")
        sampler.warm_up(lambda one: self._tell("warm-up", one))
        warm = time.monotonic()
        self._warmup_s += warm - prepared
        self._left.note_warm_pass(sampler.shorten_blocks(options.round_budget_s, self._passes_for_intervals))
        self._sample()
        sampled = time.monotonic()
        self._left.enter("verification")
        for one in self._active:
            self._run_steadily(one)
        if options.controls and self.setup.guards("interleaved"):
            for one in self._active:
                self._tell("verification: sample alone", one)
                sampler.isolate(one, options.round_budget_s)
        self._note_memory()
        if number == options.rounds - 1:
            self._left.enter(FINAL)
            self._last_round.look()
        self._workers.note_state(self._active)
        self._workers.end(self._active)
        self._checks_s += time.monotonic() - sampled

    @property
    def _last_round(self) -> LastRound:
        return LastRound(self.setup, self.sampler, self._implementations, self._conditions.telemetry, self._tell)

    def _run_steadily(self, one: ImplementationRun) -> None:
        """Time calls without a pause by the supervisor's own clock, where it is too coarse for a single call."""
        # Deferred calls may not follow each other without a pause.
        if self.setup.described.deferred or not self.setup.guards("clocks_agree"):
            return
        if one.samples.bracket_s and min(one.samples.bracket_s) < clock_agreement.STEADY_S:
            self._tell("verification: run without pauses", one)
            enough = partial(clock_agreement.fast_without_pauses, one, self.setup.clock)
            self.sampler.run_steadily(one, clock_agreement.STEADY_S, enough)

    @property
    def _pids(self) -> list[int]:
        """All processes of the run."""
        children = [self.sampler.judge, *(one.child for one in self._implementations)]
        return [os.getpid(), *(pid for one in children if one is not None and not one.ended for pid in one.pids)]

    @property
    def _passes_for_intervals(self) -> int:
        """Passes of a round, so that all rounds together have enough for an interval."""
        return max(sampler.MIN_PASSES, math.ceil(intervals.MIN_PASSES / self.setup.options.rounds))

    @property
    def _least_passes(self) -> int:
        """Passes of a round, whatever the budget: enough for an interval, and for the least number of samples."""
        options, shortest = self.setup.options, min((one.block_length for one in self._active), default=1)
        samples = math.ceil(options.min_samples / (options.rounds * shortest))
        return max(self._passes_for_intervals, samples)

    def _sample(self) -> None:
        start = time.monotonic()
        self._left.least_passes, self._drawn, self._undecided = self._least_passes, -math.inf, None
        self._left.begin_sampling()
        # The time that warming up took belongs to the start.
        self.sampler.clockwork = self._spent
        try:
            take = self._take_passes if self.setup.guards("interleaved") else self._take_sides
            self._stopped = take(start + self.setup.options.longest_round_s)
            self._left.note_end_of_sampling(early=self._stopped == _NARROW)
        finally:
            self._sampling_s += time.monotonic() - start
            self.sampler.clockwork = Clockwork()

    def _take_passes(self, until: float) -> str:
        """Take passes until the intervals are narrow, the verdicts decided, or the time is up; return which."""
        passes, check_at, options = 0, self._least_passes, self.setup.options
        decision = Decision(2 * check_at, time.monotonic() + options.round_budget_s) if options.until_decided else None
        while self._active:
            start = time.monotonic()
            self._take_censuses(self._active)
            self.sampler.run_pass(self._passes, self._report)
            self._left.note_pass(time.monotonic() - start)
            self._passes += 1
            passes += 1
            if passes >= check_at:
                round_number = self.sampler.round_number
                clock, width = self.setup.clock, options.width
                self._undecided = undecided(self._implementations, clock, width, round_number)
                if self._undecided is None:
                    return _NARROW
                check_at = passes + max(2, int(passes * _CHECK_AGAIN))
            if decision and decision.is_due(passes) and passes % 2 == 0:
                said = verdicts(self._implementations, self.setup.clock, options.floor, self.sampler.round_number)
                if decision.stands(said, passes):
                    return _DECIDED
            # An even number of passes completes the order A B B A.
            if passes >= self._least_passes and passes % 2 == 0 and time.monotonic() >= until:
                return _BUDGET_SPENT
        return "nothing to measure"

    def _take_sides(self, until: float) -> str:
        """Take all passes of one implementation, then all of the next: for the proof of what taking turns guards."""
        first, most, share_s = self._passes, 0, (until - time.monotonic()) / max(1, len(self._active))
        for one in self._active:
            passes, end = 0, time.monotonic() + share_s
            while one.active and (passes < self._least_passes or time.monotonic() < end):
                self._take_censuses([one])
                self.sampler.run_pass(first + passes, self._report, only=one)
                passes += 1
            most = max(most, passes)
        self._passes = first + most
        return _BUDGET_SPENT

    def _tell(self, phase: str, one: ImplementationRun | None = None) -> None:
        """A phase, or a step of a phase, begins."""
        self.setup.reporter.phase(phase, one.name if one else None)
        self.setup.reporter.progress(self._state(one))

    def _report(self, one: ImplementationRun) -> None:
        """A block of an implementation begins. A thousand blocks may take a second; a report takes a part of it."""
        now = time.monotonic()
        if now - self._drawn >= _REPORT_EVERY_S:
            self._drawn = now
            self._tell("sampling", one)

    def _state(self, one: ImplementationRun | None) -> SamplingState:
        left, elapsed = self._left.seconds_left, time.monotonic() - self._started
        waiting, interval = self._undecided or (None, None)
        return SamplingState(
            seconds_left=left,
            share=elapsed / max(elapsed + left, 1e-9),
            samples=len(one.samples.step) if one else 0,
            undecided=waiting.name if waiting else None,
            interval=(interval.low, interval.high) if interval else None,
        )

    def _take_censuses(self, implementations: list[ImplementationRun]) -> None:
        """Look at workers' processes between two of their blocks, a few times a round: all in the same gap."""
        wanted = _CENSUSES * (1 + self.sampler.round_number)
        looked_at = [(one, self._monitor_of(one)) for one in implementations if len(one.census) < wanted]
        if looked_at and self.setup.guards("process_census"):
            for _, monitor in looked_at:
                monitor.settle()
            for _, monitor in looked_at:
                monitor.mark()
            time.sleep(WATCH_S)
        for one, monitor in looked_at:
            seen, nvml = monitor.between_calls(), self._conditions.telemetry.nvml
            if self.setup.described.files:  # where reading pages from disk is the work
                seen = evolve(seen, major_faults=None)
            one.census.append(evolve(seen, gpus=monitor.gpus(nvml)) if nvml else seen)

    def _monitor_of(self, one: ImplementationRun) -> ProcessMonitor:
        monitor = self._monitors.get(one.name)
        if monitor is None or monitor.pid != one.worker.pid:
            monitor = self._monitors[one.name] = ProcessMonitor(one.worker.pid)
        return monitor

    # --- ending

    def _note_memory(self) -> None:
        for one in self._active:
            # After Ctrl-C a worker may be in the middle of a request, or not have come to its calls.
            called = self.sampler.round_number in one.samples.round[-1:]
            if one.running and one.worker.idle and called:
                use = one.ask("memory", answers.memory, timeout=10.0)
                if use is not None:
                    one.memory = _larger(one.memory, use)

    def _close(self, judge: Child | None) -> None:
        if self.interrupted and self._sampler is not None:
            self._note_memory()
        self._workers.end(self._active)
        for fd in self._fds:
            os.close(fd)
        self._conditions.close()
        self._workers.close()
        if judge is not None:
            judge.kill()

    def _result(self, created: str) -> TargetResult:
        assert self._opened is not None
        opened, setup = self._opened, self.setup
        self._decide(opened)
        problem = self._problem(opened)
        cost = cost_of(problem)
        rows = Scoring(
            self._implementations,
            clock=setup.clock,
            cache=setup.described.cache,
            goal=setup.described.goal,
            cost=cost,
            tolerance=opened["tolerance"],
            floor=setup.options.floor,
            ceilings=partial(setup.ceilings, groups=groups_used(cost)),
            off=setup.options.off,
        ).rows()
        return TargetResult(
            target=setup.target.name,
            summary=setup.summary,
            goal=setup.described.goal,
            clock=setup.clock,
            cache=setup.described.cache,
            device=setup.device.name,
            problem=problem,
            rows=rows,
            order=self.sampler.order,
            overhead=self._overhead(),
            seed=setup.seed,
            started=created,
            wall_s=time.monotonic() - self._started,
            stopped=self._stopped,
            tier=setup.options.tier,
            rounds=setup.options.rounds,
            clock_overhead_s=self._costs.get(setup.clock),
            floor=setup.options.floor,
            clock_source=setup.kind.clock if setup.clock == "device" else None,
            executor=setup.executor_name,
            no_gain=setup.described.no_gain_on.get(setup.device.name),
            complete=not self.interrupted,
        )

    def _decide(self, opened: dict[str, Any]) -> None:
        """Let the guards that work after the samples give their findings."""
        if self._workers.disk_was_full:
            self._implementations[-1].reason = (
                f"killed: its files exceed the {MOST_BYTES >> 30} GiB of disk that a candidate may use, or are in "
                "folders too deep to count"
            )
        if self.interrupted and self.setup.resamples:
            self._leave_suspects_open()
        if self.setup.guards("clocks_agree"):
            clock_agreement.compare_with_supervisor(self._implementations)
        if self.setup.watches_calls:
            clock_agreement.refuse_work_beside(self._implementations)
        for one in self._implementations[1:]:
            one.find_silence()
        self._assess(opened)
        for one in self._implementations:
            if isinstance(one.child, RankGroup):
                one.rank_places = one.child.places
                one.not_observed = one.child.not_observed | one.not_observed

    def _leave_suspects_open(self) -> None:
        """Leave a suspect open where Ctrl-C came before it was resampled: few samples prove nothing."""
        for one in self._active:
            suspicion = self._last_round.suspicion(one) if one.looks is None else None
            if suspicion:
                one.stop(Verdict.INCONCLUSIVE, f"interrupted before it could be resampled: {suspicion}")

    def _assess(self, opened: dict[str, Any]) -> None:
        """Let the checks look at the evidence of each implementation."""
        setup, off = self.setup, self.setup.options.off
        # Without input refresh, or without judging, there are no seeds to look at.
        off |= set() if setup.guards("fresh_values", "judged_output") else {"seeds", "versions"}
        checks, baseline = (*built_in(), *setup.options.checks), None
        # An executor of a plugin may start workers that have other libraries than the server here.
        server = mapped([setup.server.pid]) if setup.executor_name in BUILT_IN else None
        for one in self._implementations:
            evidence = evidence_of(
                one,
                seeds=self.sampler.seeds,
                declared={"run": asdict(setup.described), "judge": opened["declared"]},
                views=opened["views"],
                baseline=baseline,
                device=setup.device.name,
                clock=setup.clock,
                cache=setup.described.cache,
                machine=self._facts,
                wire_bytes=opened["cost"]["wire_bytes"],
                server_libraries=server.libraries if server else None,
            )
            baseline = baseline or evidence
            if one.active and one.declared.role != "control":
                untrusted = setup.source_of(one.declared) is not None
                apply_findings(one, assess(evidence, checks, off), untrusted=untrusted)

    def _problem(self, opened: dict[str, Any]) -> Problem:
        cost = opened["cost"]
        return Problem(
            size=self.setup.size,
            params=self.setup.params,
            bytes_read=cost["bytes_read"],
            bytes_written=cost["bytes_written"],
            flops=cost["flops"],
            precision=cost["precision"],
            tolerance=opened["tolerance"],
            input_bytes=opened["input_bytes"],
            output_bytes=opened["output_bytes"],
            tokens=cost["tokens"],
            wire_bytes=cost["wire_bytes"],
            world_size=max(1, self.setup.world_size),
            nodes=max(1, *(len(set(one.rank_places)) for one in self._implementations)),
            disk_read_bytes=cost["disk_read_bytes"],
            disk_written_bytes=cost["disk_written_bytes"],
        )

    def _overhead(self) -> Overhead:
        spent = self._spent
        parts = asdict(spent, filter=lambda kept, _: kept.name != "samples")
        return Overhead(
            samples=spent.samples,
            setup_s=self._setup_s,
            warmup_s=self._warmup_s,
            sampling_s=self._sampling_s,
            other_s=max(0.0, self._sampling_s - sum(parts.values())),
            checks_s=self._checks_s,
            **parts,
        )


def _control(baseline: ImplementationRun) -> ImplementationRun:
    """The baseline once more, to be compared with itself."""
    declared = evolve(baseline.declared, name=f"{baseline.name} again", role="control", why="", kind=None)
    one = ImplementationRun(declared, baseline.runs, baseline.policy, ended=baseline.ended, reason=baseline.reason)
    one.not_observed.update(baseline.not_observed)
    return one


def _larger(before: Memory | None, now: Memory) -> Memory:
    """The larger of each figure over the rounds."""
    if before is None:
        return now
    pairs = zip(astuple(before), astuple(now), strict=True)
    return Memory(*(max(filter(None, pair), default=pair[1]) for pair in pairs))
