"""Processes and sampler of a target's measurement: judge, participants, workers; opened and closed."""

import itertools
import os
import random
from typing import Any

from attrs import asdict, astuple, define, evolve, field

from aiperf_core.candidate_format import reference_of
from aiperf_core.described import DescribedImplementation
from aiperf_core.devices import environment
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.extra_samples import ExtraSamples
from aiperf_core.harness.run.observing import ObservedTaker, free_processors, has_processor
from aiperf_core.harness.run.options import COMPILING
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.sampler import Sampler
from aiperf_core.harness.run.setup import Setup
from aiperf_core.harness.run.taking import Method, SampleTaker
from aiperf_core.harness.run.workers import JudgeProcess, NextJudge, Workers
from aiperf_core.measurements import Memory
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Ending, Verdict
from aiperf_core.stats.observations import Clocks
from aiperf_core.validity.policy import Policy

# What rows say where the worker's process renews its own inputs (see `shared_buffers`), by the guards that this
# weakens.
_IN_PROCESS = {
    "fresh_values": "the implementation's own process copies refreshed inputs to the device, and could keep old ones",
    "inputs_intact": "the implementation's own process reports its inputs after a call",
}


@define(eq=False)
class Bench:
    """The processes of a target's run, and what samples them. It is opened and closed once.

    next_judge: the judge that is started ahead, where the processes stay warm.
    participants: the implementations, the baseline first.
    opened: the judge's report of the workload.
    facts: facts about the machine.
    is_open: whether the judge has opened the workload. What takes the samples exists from then on.
    taker, sampler, extra: take single samples, those of the passes, and those beside the passes.
    """

    setup: Setup
    next_judge: NextJudge | None = None
    participants: list[Participant] = field(factory=list, init=False)
    conditions: Conditions = field(init=False)
    workers: Workers = field(init=False)
    opened: dict[str, Any] = field(factory=dict, init=False)
    facts: dict[str, Any] = field(factory=dict, init=False)
    is_open: bool = field(default=False, init=False)
    taker: SampleTaker = field(init=False)
    sampler: Sampler = field(init=False)
    extra: ExtraSamples = field(init=False)
    _judge: Child | None = field(default=None, init=False)
    _observer: Child | None = field(default=None, init=False)
    _fds: list[tuple[int, ...]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Open the telemetry."""
        self.conditions, self.workers = Conditions(self.setup.kind), Workers(self.setup)

    @property
    def active(self) -> list[Participant]:
        """The implementations that are still measured."""
        return [one for one in self.participants if one.active]

    @property
    def all_refused(self) -> bool:
        """Whether untrusted code took part, and none of it is measured any more."""
        untrusted = [one for one in self.participants if self.setup.source_of(one.declared) is not None]
        return bool(untrusted) and not any(one.active for one in untrusted)

    @property
    def baseline(self) -> Participant:
        """The implementation that the others are compared with."""
        return self.participants[0]

    def open(self) -> None:
        """Start the judge and the first workers, which import and open the device side by side.

        Raises `AiperfError` or `SkipError` where the workload itself cannot be set up.
        """
        setup = self.setup
        rng = setup.trust.rng(setup.seed)
        self.participants = [_participant(setup, one) for one in setup.plan.implementations(setup.options)]
        if setup.options.controls:
            self.participants.append(_control(self.baseline))
        if setup.trust.own_memory:
            for number, one in enumerate(self.participants):
                one.memory = number
        judge = self._start_judge(rng)
        self._judge = judge.child
        if setup.trust.observed and has_processor(setup.plan.described.threads):
            self._observer = setup.server.spawn("observer", "observer", setup.log_path("observer"))
        self.workers.spawn(self.active)
        self.facts = environment.facts(setup.device.name)  # while the others are busy
        opened = self._collect_opened(judge)
        self._judge.paused = setup.pausing
        fds, memories = tuple(opened.pop("fds", ())), self._memories
        each = len(fds) // memories
        self._fds = [fds[each * number : each * (number + 1)] for number in range(memories)]
        self.opened = opened
        self.taker = self._taker(self._judge, rng, judge.first_seed)
        self.sampler = Sampler(self.taker, self.participants, lambda one: self.conditions.read(one, self.pids))
        self.extra = ExtraSamples(self.taker)
        self.is_open = True

    def open_workers(self, round_number: int) -> None:
        """Give the workers of a round the data; those of later rounds are started first."""
        if round_number > 0:
            self.workers.spawn(self.active)
        self.workers.open(self.active, self.opened["problem"], self._fds)

    def note_memory(self) -> None:
        """Keep the memory that each implementation took at most."""
        for one in self.active:
            # After Ctrl-C a worker may be in the middle of a request, or not have come to its calls.
            called = self.sampler.round_number in one.observed.samples.round[-1:]
            if one.running and one.worker.idle and called:
                # A candidate could take less in its first call; its baseline is measured alike.
                use = one.ask("memory", answers.memory, timeout=10.0, all_calls=self.setup.untrusted)
                if use is not None:
                    one.recorder.note(memory=_larger(one.observed.memory, use))

    def close(self) -> None:
        """End the processes and close what was opened."""
        self.workers.end(self.active)
        for fd in itertools.chain(*self._fds):
            os.close(fd)
        self.conditions.close()
        self.workers.close()
        for child in (self._judge, self._observer):
            if child is not None:
                child.kill()
        if self.workers.overuse:
            for one in self.participants:
                ending = one.observed.ending
                if ending is not None and self.setup.source_of(one.declared):
                    one.recorder.note(ending=Ending(ending.verdict, f"killed: {self.workers.overuse}"))

    @property
    def _memories(self) -> int:
        """The number of memories of inputs and outputs."""
        return 1 + max(one.memory for one in self.participants)

    def _start_judge(self, rng: random.Random) -> JudgeProcess:
        """The judge that was started ahead for this run, or a new one."""
        setup, tolerance = self.setup, self.setup.options.overrides.tolerance
        request = {
            "target": asdict(setup.plan.ref),
            "device": asdict(setup.device),
            "params": setup.plan.params,
            "off": sorted(setup.options.off),
            "memories": self._memories,
            "tolerance": asdict(tolerance) if tolerance else None,
            "flush_bound": asdict(setup.flush_bound) if setup.flush_bound else None,
        }
        if self.next_judge is not None and setup.untrusted and not setup.foreign:
            ready = self.next_judge.take(request, setup.plan.described)
            if ready is not None:
                return ready
        # A reference of a user may take all memory, and with it the machine.
        limit = self.workers.memory_limit() if setup.foreign else None
        return JudgeProcess.start(setup.server, setup.log_path("judge"), request, rng, memory_limit_bytes=limit)

    def _collect_opened(self, judge: JudgeProcess) -> dict[str, Any]:
        setup, plan = self.setup, self.setup.plan
        try:
            timeout = setup.options.timeout_s * (COMPILING if setup.foreign else 1)
            return judge.opened(timeout, setup.log_path("judge"))
        except ChildError as error:
            judge.child.kill()
            text = str(error)
            if error.kind == "skip":
                raise SkipError(text) from None
            reference = reference_of(plan.ref.module)
            if reference and (error.kind == "memory" or "SIGKILL" in text):
                raise AiperfError(
                    f"{reference.path}: the reference, its inputs and its weights need more memory than the judge may "
                    f"take: {text}. Use smaller sizes, or a machine with more memory."
                ) from None
            sizes = ", ".join(f"{name}={value:g}" for name, value in plan.params.items())
            named = plan.name in text or (setup.foreign and error.kind == "mistake")
            where = "" if named else f"{plan.name!r} could not be set up at {sizes or 'its only size'}: "
            hint = " Try smaller sizes with --set." if error.kind == "memory" else ""
            raise AiperfError(f"{where}{text}{hint}") from None

    def _taker(self, judge: Child, rng: random.Random, first_seed: int) -> SampleTaker:
        """Decide how samples are taken."""
        setup, described = self.setup, self.setup.plan.described
        for one in self.participants:
            one.recorder.deferred = described.deferred
            one.recorder.deadline_s = setup.plan.params["deadline_s"] if described.served else None
        method = Method(
            clock=setup.clock,
            clocks=self._clocks(),
            both_clocks=setup.kind.clock is not None,
            has_state=self.opened["has_state"],
            cold=setup.cold,
            off=setup.options.off,
            trust=setup.trust,
            fingerprints=setup.kind.fingerprints,
            timeout_s=setup.options.timeout_s,
            witnessed=setup.witnessed,
            answers_only=setup.options.answers_only,
        )
        if not setup.trust.observed:
            return SampleTaker(judge, method, rng, first_seed, setup.quiet)
        return ObservedTaker(
            judge,
            method,
            rng,
            first_seed,
            participants=self.participants,
            observer=self._observer,
            free=free_processors(described.threads),
        )

    def _clocks(self) -> Clocks:
        """Cost of each clock in a sample, as measured by processes that run no candidate's code."""
        if self.setup.trust.observed:  # what its samples show is taken off at the end
            return Clocks()
        if self.setup.kind.clock is None:
            return Clocks({"wall": self.opened["clock_cost_s"]})
        ceilings = self.setup.ceilings(False)
        cost_s, step_s = (ceilings.event_overhead_s, ceilings.event_step_s) if ceilings else (None, None)
        return Clocks({"device": cost_s} if cost_s else {}, {"device": step_s} if step_s else {})

    @property
    def pids(self) -> list[int]:
        """All processes of the run."""
        children = [self._judge, self._observer, *(one.child for one in self.participants)]
        return [os.getpid(), *(pid for one in children if one is not None and not one.ended for pid in one.pids)]


def _participant(setup: Setup, declared: DescribedImplementation) -> Participant:
    policy = Policy(setup.options.policy, {**setup.options.known.severities, **Policy().severities})
    one = Participant(declared, declared.name, policy)
    not_observed: dict[str, str] = {}
    if not setup.kind.shares_memory:
        not_observed |= _IN_PROCESS
    if not setup.kind.has_ceilings:
        not_observed["faster_than_light"] = f"nothing is known of what {setup.device.name!r} reaches"
    one.recorder.note(not_observed=not_observed)
    reason = next(filter(None, (lacking(text, setup.hardware) for text in declared.requires)), None)
    if reason:
        one.stop(Verdict.SKIPPED, reason)
    return one


def _control(baseline: Participant) -> Participant:
    """The baseline once more, to be compared with itself."""
    declared = evolve(baseline.declared, name=f"{baseline.name} again", role="control", why="", kind=None)
    one = Participant(declared, baseline.runs, baseline.policy, active=baseline.active)
    one.recorder.note(not_observed=dict(baseline.observed.not_observed), ending=baseline.observed.ending)
    return one


def _larger(before: Memory | None, now: Memory) -> Memory:
    """The larger of each figure over the rounds."""
    if before is None:
        return now
    pairs = zip(astuple(before), astuple(now), strict=True)
    return Memory(*(max(filter(None, pair), default=pair[1]) for pair in pairs))
