"""One target, from its declarations to its result: start the judge and the workers, sample, decide."""

import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psutil
from attrs import asdict, astuple, define, evolve, field

from aiperf_core.described import Described, DescribedImplementation, TargetRef
from aiperf_core.devices import environment
from aiperf_core.devices.device import Device, DeviceKind
from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.executor import ExecutorKind, WorkerHandle, WorkerSpec
from aiperf_core.harness.isolation.candidate import CandidateSource
from aiperf_core.harness.isolation.process_monitor import WATCH_S, ProcessMonitor
from aiperf_core.harness.isolation.scratch import MOST_BYTES, Scratch, WorkFolder
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run import energy
from aiperf_core.harness.run.evidence import conduct_of, evidence_of, rules, settle
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.sampler import MIN_PASSES, Clockwork, JudgeError, Sampler, known
from aiperf_core.measurements import Ceilings, Energy, Memory, Rank
from aiperf_core.requirements import Hardware, lacking
from aiperf_core.results.models import Overhead, Problem, TargetResult, Verdict
from aiperf_core.stats import clock_agreement
from aiperf_core.stats.conditions import throttled_blocks, warm_after_flush
from aiperf_core.stats.verdicts import Scoring
from aiperf_core.targets import WORLD_SIZE
from aiperf_core.validity.assess import assess, built_in
from aiperf_core.validity.policy import Policy

# How often a worker's process is looked at between its blocks, each round.
_CENSUSES = 4
# The name of a candidate's row.
CANDIDATE = "candidate"
# A candidate may compile when it is imported or prepares, which may take so many times as long as a call.
_COMPILING = 6
# A worker may take this part of the memory that is free when it starts; the rest keeps the machine alive.
_MEMORY_SHARE = 0.7
# The stopping rule looks again after so many more passes, as a part of those already taken.
_LOOK_AGAIN = 0.25
# Every so many blocks the machine is asked for all that it can tell.
_FULL_READING = 8
_IMPORT_TIMEOUT_S = 60.0
# CUPTI starts in seconds, and in many where every process of a busy machine starts it at once.
_CUPTI_TIMEOUT_S = 180.0
# What rows say where the worker's process renews its own inputs (see `arena`), by the guards that this weakens.
_IN_PROCESS = {
    "fresh_values": "the implementation's own process copies new values to the device, and could keep the old ones",
    "inputs_intact": "the implementation's own process tells what its inputs are after a call",
}
_ENERGY_PLAN = energy.Plan(idle_s=0.5, run_s=0.5, updates=10)


class Reporter(Protocol):
    """Who is told how a target goes on."""

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A new phase begins."""

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """Sampling goes on."""


@define(eq=False)
class TargetRun:
    """A target's run. `execute` may be called once."""

    target: TargetRef
    summary: str
    described: Described
    wanted: frozenset[str]
    device: Device
    kind: DeviceKind
    size: str
    params: dict[str, float]
    options: Options
    hardware: Hardware
    server: ForkServer
    executor: ExecutorKind
    executor_name: str
    log_path: Callable[[str], Path]
    reporter: Reporter
    ceilings: Callable[[bool], Ceilings | None]
    left_out: tuple[str, ...]
    seed: int
    _rng: random.Random = field(init=False)
    interrupted: bool = field(default=False, init=False)
    _implementations: list[ImplementationRun] = field(factory=list, init=False)
    _opened: dict[str, Any] | None = field(default=None, init=False)
    _sampler: Sampler | None = field(default=None, init=False)
    _stopped: str = field(default="before sampling", init=False)
    _started: float = field(factory=time.monotonic, init=False)
    _sampling_started: float | None = field(default=None, init=False)
    _sampling_s: float = field(default=0.0, init=False)
    _spent: Clockwork = field(factory=Clockwork, init=False)
    _telemetry: Telemetry = field(init=False)
    # Of the devices of this machine's ranks, without the first one's.
    _of_ranks: dict[int, Telemetry] = field(factory=dict, init=False)
    _start_s: float = field(default=0.0, init=False)
    _passes: int = field(default=0, init=False)
    _fds: tuple[int, ...] = field(default=(), init=False)
    _facts: dict[str, Any] = field(factory=dict, init=False)
    _scratch: Scratch | None = field(default=None, init=False)
    _folder: WorkFolder | None = field(default=None, init=False)
    _watchers: dict[str, ProcessMonitor] = field(factory=dict, init=False)
    _costs: dict[str, float] = field(factory=dict, init=False)
    _frozen: tuple[str, str] = field(init=False)
    _policy: Policy = field(init=False)
    _first_seed: int = field(init=False)

    @_telemetry.default
    def _opened_telemetry(self) -> Telemetry:
        return self.kind.telemetry()

    @_frozen.default
    def _rules(self) -> tuple[str, str]:
        return rules(self.options)

    @_policy.default
    def _chosen_policy(self) -> Policy:
        ours = Policy().severities
        return Policy(self.options.policy, {**self.options.severities, **ours})

    @_first_seed.default
    def _drawn_seed(self) -> int:
        return self._rng.getrandbits(62)

    @_rng.default
    def _seeded(self) -> random.Random:
        # What an untrusted candidate is judged on nobody shall compute from what it has seen.
        return random.SystemRandom() if self.options.candidate else random.Random(self.seed)

    def execute(self) -> TargetResult:
        """Measure the target, in rounds of fresh processes. Ctrl-C ends the measuring and keeps what was measured.

        Raises `AiperfError` where the workload itself is at fault and nothing can be measured.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        judge = None
        try:
            judge = self._start()
            for number in range(self.options.rounds):
                self._run_round(number)
        except KeyboardInterrupt:
            self.interrupted, self._stopped = True, "interrupted"
        except JudgeError as error:
            raise AiperfError(f"{self.target.name!r} could not be judged: {error}") from None
        finally:
            self._close(judge)
        if self._opened is None:
            raise KeyboardInterrupt
        return self._result(created)

    # --- starting

    def _start(self) -> Child:
        """Start the judge and the first workers, which import and open the device side by side; return the judge."""
        self.reporter.phase("make inputs")
        self._implementations = [self._implementation(one) for one in self._chosen()]
        if self.options.controls:
            self._implementations.append(_control(self._implementations[0]))
        judge = self.server.spawn("judge", "judge", self.log_path("judge"))
        judge.post(
            "open",
            target={"name": self.target.name, "module": self.target.module},
            device=asdict(self.device),
            params=self.params,
            seed=self._first_seed,
            static_seed=self._rng.getrandbits(62),
            off=sorted(self.options.off),
        )
        self._spawn_workers()
        self._facts = environment.facts(self.device.name)  # while the others are busy
        try:
            self._opened = judge.collect(timeout=self.options.timeout_s)
        except ChildError as error:
            judge.kill()
            text = str(error)
            if error.kind == "skip":
                raise SkipError(text) from None
            where = "" if self.target.name in text else f"{self.target.name!r} could not be set up at {self._sizes()}: "
            hint = " Try smaller sizes with --set." if error.kind == "memory" else ""
            raise AiperfError(f"{where}{text}{hint}") from None
        judge.paused = self._pausing
        self._enter(judge)
        return judge

    @property
    def _pausing(self) -> bool:
        """Whether processes are stopped while it is not their turn.

        On a processor, threads of a process that has finished spin for a while and take time from the next one. A candidate
        shall not work when no clock runs; and what stopping costs shall be the same for its baseline.
        """
        return self.kind.on_host or self.options.candidate is not None

    @property
    def _watches_calls(self) -> bool:
        """Whether what a process does beside its calls can be told.

        That is where it is stopped otherwise, and where its own clock is held against the supervisor's: what a clock that
        lies leaves out of a call would seem to be done beside it.
        """
        guarded = self.options.off.isdisjoint({"process_census", "clocks_agree"})
        return guarded and self._pausing and not self._world_size

    @property
    def _looks_again(self) -> bool:
        """Whether more samples are taken of an implementation before its clock, or what it does beside its calls, is held against it."""
        return self._watches_calls or (self._world_size > 0 and self._clock == "wall")

    def _suspicion(self, baseline: ImplementationRun, one: ImplementationRun) -> str | None:
        """What must be looked at again before an implementation is accused of it."""
        lying = None if "clocks_agree" in self.options.off else clock_agreement.disagreement(baseline, one)
        found = lying or (clock_agreement.work_beside(baseline, one) if self._watches_calls else None)
        return found[0] if found else None

    def _sizes(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.params.items())

    def _enter(self, judge: Child) -> None:
        """Decide how samples are taken."""
        assert self._opened is not None
        costs = self._costs = self._clock_costs
        ceilings = self.ceilings(False) if self.kind.clock else None
        for one in self._implementations:
            one.clock_cost_s, one.deferred = costs, self.described.deferred
            one.deadline_s = self.params["deadline_s"] if self.described.served else None
            if ceilings and ceilings.event_step_s:
                one.clock_step_s = {"device": ceilings.event_step_s}
        self._sampler = Sampler(
            judge,
            self._implementations,
            clock=self._clock,
            clock_cost_s=costs.get(self._clock, 0.0),
            both_clocks=self.kind.clock is not None,
            has_state=self._opened["has_state"],
            cold=self._cold,
            first_seed=self._first_seed,
            off=self.options.off,
            untrusting=self.options.candidate is not None,
            seals=self.kind.seals,
            timeout_s=self.options.timeout_s,
            rng=self._rng,
            after_block=self._read_conditions,
        )
        self._fds = tuple(self._opened.pop("fds", ()))

    def _chosen(self) -> list[DescribedImplementation]:
        """The baseline first; all others, or those asked for and the rungs that they build on."""
        here = self.described.on(self.device.name)
        if self.options.candidate is not None:
            return [self._baseline(here), _as_declared(self.options.candidate, self.device.name)]
        wanted = set(self.wanted)
        for one in reversed(here):
            if one.name in wanted and one.builds_on:
                wanted.add(one.builds_on)
        return [one for one in here if not wanted or one.role == "baseline" or one.name in wanted]

    def _baseline(self, here: list[DescribedImplementation]) -> DescribedImplementation:
        """The implementation that a candidate is compared with."""
        name = self.options.baseline
        one = next(one for one in here if one.name == name or (name is None and one.role == "baseline"))
        return evolve(one, role="baseline", kind=one.kind or "reasonable", builds_on=None)

    def _implementation(self, declared: DescribedImplementation) -> ImplementationRun:
        one = ImplementationRun(declared, declared.name, self._policy)
        if not self.kind.shares_memory:
            one.not_observed.update(_IN_PROCESS)
        if not self.kind.has_ceilings:
            one.not_observed["faster_than_light"] = f"nothing is known of what {self.device.name!r} reaches"
        reason = next(filter(None, (lacking(text, self.hardware) for text in declared.requires)), None)
        if reason:
            one.stop(Verdict.SKIPPED, reason)
        return one

    # --- a round

    def _run_round(self, number: int) -> None:
        """Fresh processes for everybody, samples, and the end of the processes."""
        assert self._sampler is not None
        started = time.monotonic()
        self._sampler.round_number = number
        self.reporter.phase("start workers")
        if number > 0:
            self._spawn_workers()
        self._open_workers()
        for one in self._active:
            self._prepare(one)
        self._sampler.warm_up(lambda one: self.reporter.phase("warm up", one.name))
        self._start_s += time.monotonic() - started
        self._sample()
        for one in self._active:
            self._run_steadily(one)
        if self.options.controls and "interleaved" not in self.options.off:
            for one in self._active:
                self.reporter.phase("sample alone", one.name)
                self._sampler.isolate(one)
        self._note_memory()
        if number == self.options.rounds - 1:
            self._look_closer()
        self._note_state()
        self._close_workers()

    def _look_closer(self) -> None:
        """What is looked at once, in the last round: of a candidate what CUPTI sees, and with controls the rest too."""
        suspect = self.options.controls or self.options.candidate is not None
        if self._world_size:
            self._note_communication()
        if self.options.controls and self._cold:
            self._probe_flush()
        assert self._sampler is not None
        baseline = self._implementations[0]
        for one in self._active[1:] if self._looks_again and baseline.active else ():
            self.reporter.phase("look again", one.name)
            self._sampler.look_again(baseline, one, partial(self._suspicion, baseline, one))
        # Of calls in a row only the first has new values, so that code which remembers gains by the others in every tier.
        in_a_row = any(one.calls > 1 for one in self._active[1:])
        for one in self._active:
            if suspect or (in_a_row and (one is self._implementations[0] or one.calls > 1)):
                self.reporter.phase("repeat values", one.name)
                self._sampler.repeat(one)
        if self.kind.audited and self.options.audit and suspect:
            self._audit()
        if self._world_size:
            for one in self._active:
                one.no_energy = "not measured for several ranks"
        elif self.options.controls and self.options.energy:
            self._measure_energy()

    def _note_communication(self) -> None:
        """Have every rank tell what it sends in a call."""
        assert self._opened is not None
        for one in self._active:
            assert one.child is not None
            request = partial(one.child.ask, "collectives", timeout=self.options.timeout_s)
            told = self._guarded(one, request, answers.collectives)
            if told is None:
                continue
            kept = zip(one.rank_times_s, one.samples.device_s, one.samples.calls, strict=True)
            samples = [
                (each, calls) for each, device, calls in kept if (device is not None) == (self._clock == "device")
            ]
            call_s = one.median(self._clock) or 0.0
            for number, ((counts, sent), shard) in enumerate(zip(told, self._opened["shard_elements"], strict=True)):
                # A GPU's rank is at work until its last kernel is done. On a processor one that waits for others uses none.
                worked = [(min(each[number]) if self.kind.on_host else each[number][0]) / n for each, n in samples]
                work_s = statistics.median(worked)
                one.ranks.append(
                    Rank(
                        rank=number,
                        device=self.kind.place(number),
                        work_s=work_s,
                        # Until the slowest rank was done, whose time the row's is.
                        waited_s=max(0.0, call_s - work_s),
                        collectives=counts,
                        wire_bytes=sent,
                        shard_elements=shard,
                    )
                )

    def _note_state(self) -> None:
        # They look at themselves side by side.
        for one in self._active:
            assert one.child is not None
            self._guarded(one, partial(one.child.post, "state"))
        for one in self._active:
            assert one.child is not None
            one.end(self._guarded(one, partial(one.child.collect, timeout=10.0), answers.state))

    def _run_steadily(self, one: ImplementationRun) -> None:
        """Have the supervisor's own clock look at calls that are too short for it one by one."""
        assert self._sampler is not None
        if "clocks_agree" in self.options.off:
            return
        if self.described.deferred:  # whose calls may not follow each other without a pause
            return
        if one.samples.bracket_s and min(one.samples.bracket_s) < clock_agreement.STEADY_S:
            self.reporter.phase("run without pauses", one.name)
            self._sampler.run_steadily(one, clock_agreement.STEADY_S)

    def _probe_flush(self) -> None:
        """See whether a flush empties the cache in the implementations' own processes."""
        for one in self._active:
            assert one.child is not None
            self.reporter.phase("probe the flush", one.name)
            request = partial(one.child.ask, "probe_flush", timeout=self.options.timeout_s)
            one.flush = self._guarded(one, request, answers.flush)
            if one.flush is not None:
                warm = warm_after_flush(one.flush)
                if warm:
                    one.find(warm.issue, warm.message, warm.evidence)

    def _audit(self) -> None:
        """Have CUPTI look at a few calls of each, and compare the clocks."""
        told = {}
        self.reporter.phase("start CUPTI")
        for one in self._active:
            assert one.child is not None
            self._guarded(one, partial(one.child.post, "start_audit"))
        for one in self._active:
            assert one.child is not None
            try:
                one.child.collect(timeout=max(self.options.timeout_s, _CUPTI_TIMEOUT_S))
                self.reporter.phase("audit", one.name)
                request = partial(one.child.ask, "audit", timeout=self.options.timeout_s)
                answer = request(calls=clock_agreement.AUDITED_CALLS, flush=self._cold)
                if self._world_size:
                    one.rank_audits = [answers.audit(each) for each in answer]
                    told[one.name] = clock_agreement.slowest(one.rank_audits)
                else:
                    told[one.name] = answers.audit(answer)
            except ValueError as error:
                one.fail(ChildError("protocol", f"sent an audit that is none: {error}"))
            except ChildError as error:
                if error.kind != "skip":
                    one.fail(error)
                    continue
                message = f"{one.name} could not be audited: {error}"
                one.find("timing.not_audited", message, {})
        for one in self._active:
            if one.name in told:
                one.audit = told[one.name]
                if "clocks_agree" not in self.options.off:
                    vouches = None if self._source_of(one) else partial(self._slowed_by_profiler, one)
                    clock_agreement.compare(self._implementations[0], one, one.audit, vouches)

    def _slowed_by_profiler(self, one: ImplementationRun) -> float | None:
        assert self._sampler is not None
        self.reporter.phase("run under CUPTI", one.name)
        return clock_agreement.slowed(one, self._sampler.run_profiled(one))

    @property
    def _clock_costs(self) -> dict[str, float]:
        """What each clock adds to a sample, as processes found that run no candidate's code."""
        assert self._opened is not None
        if self.kind.clock is None:
            return {"wall": self._opened["clock_cost_s"]}
        ceilings = self.ceilings(False)
        return {"device": ceilings.event_overhead_s} if ceilings and ceilings.event_overhead_s else {}

    def _read_conditions(self, one: ImplementationRun) -> None:
        """Note what the machine says after a block; what takes longer to ask, less often."""
        assert self._sampler is not None
        light = len(self._sampler.order) % _FULL_READING != 0
        one.readings.append(self._telemetry.read(self._pids, light=light))
        for rank, telemetry in self._telemetry_of_ranks(one).items():
            one.rank_readings.setdefault(rank, []).append(telemetry.read(self._pids, light=light))
        if any(throttled_blocks([readings[-1] for readings in (one.readings, *one.rank_readings.values())])):
            one.mark_throttled()

    def _telemetry_of_ranks(self, one: ImplementationRun) -> dict[int, Telemetry]:
        if isinstance(one.child, RankGroup):
            for rank in one.child.numbers_here[1:]:
                if rank not in self._of_ranks and (telemetry := self.kind.rank_telemetry(rank)) is not None:
                    self._of_ranks[rank] = telemetry
        return self._of_ranks

    def _measure_energy(self) -> None:
        for one in self._active:
            if one.declared.role == "control":
                continue
            self.reporter.phase("measure energy", one.name)
            try:
                found = energy.measure(partial(self._steady, one), self._telemetry, _ENERGY_PLAN)
            except ChildError:
                continue  # the sampler has taken it out
            if isinstance(found, Energy):
                one.energy = found
            else:
                one.no_energy = found.reason

    def _steady(self, one: ImplementationRun, seconds: float) -> tuple[int, float]:
        """Calls without a pause for so long; how many, and how long they took. For the meter of energy."""
        assert self._sampler is not None
        each = [run.bracket_s / run.calls for run in one.steady] or one.samples.bracket_s
        calls = max(1, math.ceil(seconds / statistics.median(each)))
        taken = self._sampler.bracket_steady(one, calls)
        if taken is None:
            raise ChildError("exited", one.reason or "ended")
        return calls, taken

    @property
    def _pids(self) -> list[int]:
        """All processes of the run."""
        children = [self._sampler.judge if self._sampler else None, *(one.child for one in self._implementations)]
        return [os.getpid(), *(pid for one in children if one is not None and not one.ended for pid in one.pids)]

    @property
    def _active(self) -> list[ImplementationRun]:
        return [one for one in self._implementations if one.active]

    def _spawn_workers(self) -> None:
        """Start a worker for each implementation; they import the benchmark and wake the device while others do the same."""
        target = {"name": self.target.name, "module": self.target.module}
        for one in self._active:
            one.child = self._guarded(one, partial(self._spawn_worker, one))
        for one in self._active:
            assert one.child is not None
            one.child.guarded = "result_channel" not in self.options.off
            begin = partial(one.child.post, "begin", target=target, implementation=one.runs)
            begin = partial(begin, device=asdict(self.device))
            begin = partial(begin, processors=self._processors(), off=sorted(self.options.off))
            self._guarded(one, partial(begin, candidate=self._candidate(one)))

    def _spawn_worker(self, one: ImplementationRun) -> WorkerHandle:
        """Start an implementation's process, or its ranks. Raises `ChildError` where that fails."""
        log, limit = self.log_path(one.name), self._memory_limit()
        order = WorkerSpec(name=one.name, log=log, ranks=self._world_size, memory_limit_bytes=limit)
        try:
            return self.executor.start(order)
        except (AiperfError, ChildError):
            raise
        except Exception as error:  # what a plugin may raise costs a row
            what = f"could not be started by the executor {self.executor_name!r}: {type(error).__name__}: {error}"
            raise ChildError("exited", what) from error

    @property
    def _world_size(self) -> int:
        """How many ranks the workload has; 0 for one that is no matter of ranks."""
        return int(self.params.get(WORLD_SIZE, 0))

    def _source_of(self, one: ImplementationRun) -> CandidateSource | None:
        """The candidate, where that is what an implementation runs: code that nobody trusts."""
        source = self.options.candidate
        return source if source is not None and one.declared.where == str(source.path) else None

    def _candidate(self, one: ImplementationRun) -> dict[str, Any] | None:
        """The text of the candidate's code for its worker, and a folder of its own; None for all others."""
        source = self._source_of(one)
        if source is None:
            return None
        if self._scratch is None:
            self._scratch = Scratch(lambda: one.child.destroy() if one.child else None)
        scratch = self._scratch.new()
        return {"text": source.text, "format": source.format, "scratch": scratch, "without": self.left_out}

    def _open_workers(self) -> None:
        """Hand the data to the workers."""
        assert self._opened is not None
        for one in self._active:
            assert one.child is not None
            # Importing is no call; on a busy machine it takes seconds.
            collect = partial(one.child.collect, timeout=max(self.options.timeout_s, _IMPORT_TIMEOUT_S))
            begun = self._guarded(one, collect, answers.begun)
            if begun is not None:
                one.confined, state = begun
                one.begin(state)
            one.child.paused = self._pausing
        for one in self._active:
            assert one.child is not None
            problem = {**self._opened["problem"], "folder": self._folder_for(one)}
            self._guarded(one, partial(one.child.post, "open", fds=self._fds, problem=problem))
        for one in self._active:
            assert one.child is not None
            held = self._guarded(one, partial(one.child.collect, timeout=self._start_timeout_s(one)), answers.groups)
            if held is not None and one.state_begun is not None:
                one.state_begun["objects"] = held

    def _folder_for(self, one: ImplementationRun) -> str | None:
        """An empty folder of an implementation's own, where the benchmark asks for one. The supervisor removes it at the end."""
        if not self.described.folder:
            return None
        if self._folder is None:
            self._folder = WorkFolder()
        return tempfile.mkdtemp(prefix=f"{one.runs}-", dir=self._folder.path)

    def _start_timeout_s(self, one: ImplementationRun) -> float:
        """How long an implementation may take to be imported, and to prepare."""
        return self.options.timeout_s * (_COMPILING if self._source_of(one) else 1)

    def _processors(self) -> list[int]:
        """The processors that a worker is pinned to; none where the workload asks for no number of them.

        The first ones take the interrupts of most machines, so the last are taken.
        """
        usable = sorted(os.sched_getaffinity(0))
        return usable[-self.described.threads :] if self.described.threads and self.kind.on_host else []

    def _prepare(self, one: ImplementationRun) -> None:
        assert one.child is not None
        self.reporter.phase("prepare", one.name)
        timeout = max(self._start_timeout_s(one), self.described.prepare_timeout_s)
        request = partial(one.child.ask, "prepare", timeout=timeout)
        prepare_s = self._guarded(one, request, answers.prepared)
        if one.prepare_s is None:
            one.prepare_s = prepare_s

    @staticmethod
    def _guarded(
        one: ImplementationRun, call: Callable[[], Any], read: Callable[[Any], Any] = lambda answer: answer
    ) -> Any:
        """Make a request of an implementation's worker and read the answer; a bad one takes its implementation out of the run."""
        try:
            return read(call())
        except ChildError as error:
            one.fail(error)
        except ValueError as error:
            one.fail(ChildError("protocol", f"sent an answer that is none: {error}"))
        return None

    def _memory_limit(self) -> int | None:
        # A CUDA process maps far more than it uses, and the limit counts mappings.
        if not self.kind.on_host:
            return None
        return self.options.memory_limit_bytes or int(psutil.virtual_memory().available * _MEMORY_SHARE)

    def _sample(self) -> None:
        assert self._sampler is not None
        self._sampling_started = start = time.monotonic()
        # What was spent on warming up belongs to the start.
        self._sampler.clockwork = self._spent
        try:
            take = self._take_sides if "interleaved" in self.options.off else self._take_passes
            self._stopped = take(self._sampler, start + self.options.round_budget_s)
        finally:
            self._sampling_s += time.monotonic() - start
            self._sampler.clockwork = Clockwork()

    def _take_passes(self, sampler: Sampler, until: float) -> str:
        """Take passes until enough is known or the time is up; return which."""
        passes, look_at = 0, MIN_PASSES
        while self._active:
            self._take_censuses(self._active)
            sampler.run_pass(self._passes, self._tell)
            self._passes += 1
            passes += 1
            if passes >= look_at:
                if known(self._implementations, self._clock, self.options.width, sampler.round_number):
                    return "intervals narrow enough"
                look_at = passes + max(2, int(passes * _LOOK_AGAIN))
            # An even number of passes completes the order A B B A.
            if passes >= MIN_PASSES and passes % 2 == 0 and time.monotonic() >= until:
                return "time budget spent"
        return "nothing to measure"

    def _take_sides(self, sampler: Sampler, until: float) -> str:
        """Take all passes of one implementation, then all of the next: what taking turns is good for shows without it."""
        first, most, share_s = self._passes, 0, (until - time.monotonic()) / max(1, len(self._active))
        for one in self._active:
            passes, end = 0, time.monotonic() + share_s
            while one.active and (passes < MIN_PASSES or time.monotonic() < end):
                self._take_censuses([one])
                sampler.run_pass(first + passes, self._tell, only=one)
                passes += 1
            most = max(most, passes)
        self._passes = first + most
        return "time budget spent"

    def _tell(self, one: ImplementationRun) -> None:
        assert self._sampler is not None
        assert self._sampling_started is not None
        left = self.options.round_budget_s - (time.monotonic() - self._sampling_started)
        self.reporter.phase("sample", one.name)
        self.reporter.progress(len(self._sampler.order) + 1, None, max(0.0, left))

    def _take_censuses(self, implementations: list[ImplementationRun]) -> None:
        """Look at workers' processes between two of their blocks, a few times a round: all in the same gap."""
        assert self._sampler is not None
        wanted = _CENSUSES * (1 + self._sampler.round_number)
        looked_at = [(one, self._watcher_of(one)) for one in implementations if len(one.census) < wanted]
        if looked_at and "process_census" not in self.options.off:
            for _, watcher in looked_at:
                watcher.settle()
            for _, watcher in looked_at:
                watcher.mark()
            time.sleep(WATCH_S)
        for one, watcher in looked_at:
            seen, nvml = watcher.between_calls(), self._telemetry.nvml
            if self.described.files:  # where reading pages from disk is the work
                seen = evolve(seen, major_faults=None)
            one.census.append(evolve(seen, gpus=watcher.gpus(nvml)) if nvml else seen)

    def _watcher_of(self, one: ImplementationRun) -> ProcessMonitor:
        assert one.child is not None
        watcher = self._watchers.get(one.name)
        if watcher is None or watcher.pid != one.child.pid:
            watcher = self._watchers[one.name] = ProcessMonitor(one.child.pid)
        return watcher

    # --- ending

    def _note_memory(self) -> None:
        assert self._sampler is not None
        for one in self._active:
            # After Ctrl-C a worker may be in the middle of a request, or not have come to its calls.
            called = self._sampler.round_number in one.samples.round[-1:]
            if one.child is None or one.child.ended or not one.child.idle or not called:
                continue
            use = self._guarded(one, partial(one.child.ask, "memory", timeout=10.0), answers.memory)
            if use is not None:
                one.memory = _larger(one.memory, use)

    def _close_workers(self) -> None:
        for one in self._active:
            if one.child is not None and not one.child.ended:
                one.log = one.child.last_lines()
                one.child.kill()

    def _close(self, judge: Child | None) -> None:
        if self.interrupted and self._sampler is not None:
            self._note_memory()
        self._close_workers()
        for fd in self._fds:
            os.close(fd)
        for telemetry in (self._telemetry, *self._of_ranks.values()):
            telemetry.close()
        if self._scratch is not None:
            self._scratch.close()
        if self._folder is not None:
            self._folder.close()
        if judge is not None:
            judge.kill()

    def _result(self, created: str) -> TargetResult:
        assert self._opened is not None
        opened = self._opened
        if self._scratch is not None and self._scratch.full:
            self._implementations[
                -1
            ].reason = f"its files took more than the {MOST_BYTES >> 30} GiB of disk that a candidate may use, or lay in folders too deep to count them, and it was ended"
        if self.interrupted and self._looks_again:
            self._doubt()
        if "clocks_agree" not in self.options.off:
            clock_agreement.compare_with_supervisor(self._implementations)
        if self._watches_calls:
            clock_agreement.refuse_work_beside(self._implementations)
        for one in self._implementations[1:]:
            one.find_silence()
        self._assess()
        for one in self._implementations:
            if isinstance(one.child, RankGroup):
                one.rank_places = one.child.places
                one.not_observed = one.child.not_observed | one.not_observed
        tolerance = self.described.tolerance
        return TargetResult(
            target=self.target.name,
            summary=self.summary,
            goal=self.described.goal,
            clock=self._clock,
            cache=self.described.cache,
            device=self.device.name,
            problem=self._problem(opened, tolerance),
            rows=Scoring(
                self._implementations,
                clock=self._clock,
                cache=self.described.cache,
                goal=self.described.goal,
                cost=opened["cost"],
                tolerance=tolerance,
                floor=self.options.floor,
                ceilings=self.ceilings,
                off=self.options.off,
            ).rows(),
            order=self._sampler.order if self._sampler else [],
            overhead=self._overhead(),
            seed=self.seed,
            started=created,
            wall_s=time.monotonic() - self._started,
            stopped=self._stopped,
            tier=self.options.tier,
            rounds=self.options.rounds,
            clock_overhead_s=self._costs.get(self._clock),
            floor=self.options.floor,
            clock_source=self.kind.clock if self._clock == "device" else None,
            executor=self.executor_name,
            no_gain=self.described.no_gain_on.get(self.device.name),
            complete=not self.interrupted,
        )

    def _doubt(self) -> None:
        """Leave open what Ctrl-C kept from being looked at again: a few samples on a busy machine are no evidence."""
        for one in self._active:
            suspicion = self._suspicion(self._implementations[0], one) if one.looks is None else None
            if suspicion:
                one.stop(Verdict.INCONCLUSIVE, f"cut short before it could be looked at again: {suspicion}")

    def _assess(self) -> None:
        """Let the checks look at the evidence of each."""
        # Without new values, or without judging, there are no seeds to look at.
        off = self.options.off | (
            {"seeds", "versions"} if self.options.off & {"fresh_values", "judged_output"} else set()
        )
        sampler, before, after = self._sampler, self._frozen, rules(self.options)
        assert sampler is not None
        assert self._opened is not None
        shared = {
            "device": self.device.name,
            "clock": self._clock,
            "cache": self.described.cache,
            "machine": self._facts,
            "wire_bytes": self._opened["cost"]["wire_bytes"],
        }
        views = set(self._opened["views"])
        baseline = None
        for one in self._implementations:
            conduct = conduct_of(one, sampler, before, after)
            evidence = evidence_of(one, conduct=conduct, baseline=baseline, views=views, **shared)
            baseline = baseline or evidence
            if one.active and one.declared.role != "control":
                untrusted = self._source_of(one) is not None
                settle(one, assess(evidence, (*built_in(), *self.options.checks), off), untrusted=untrusted)

    def _problem(self, opened: dict[str, Any], tolerance: str) -> Problem:
        cost = opened["cost"]
        return Problem(
            size=self.size,
            params=self.params,
            bytes_read=cost["bytes_read"],
            bytes_written=cost["bytes_written"],
            flops=cost["flops"],
            precision=cost["precision"],
            tolerance=tolerance,
            input_bytes=opened["input_bytes"],
            output_bytes=opened["output_bytes"],
            tokens=cost["tokens"],
            wire_bytes=cost["wire_bytes"],
            world_size=int(self.params.get(WORLD_SIZE, 1)),
        )

    def _overhead(self) -> Overhead:
        spent = self._spent
        other = self._sampling_s - spent.timed_s - spent.renew_s - spent.judge_s
        return Overhead(
            samples=spent.samples,
            start_s=self._start_s,
            sampling_s=self._sampling_s,
            timed_s=spent.timed_s,
            renew_s=spent.renew_s,
            judge_s=spent.judge_s,
            other_s=max(0.0, other),
        )

    @property
    def _cold(self) -> bool:
        return self.described.cache == "cold" and "cold_cache" not in self.options.off

    @property
    def _clock(self) -> str:
        # The processor has no clock apart from the caller's.
        return self.described.clock if self.kind.clock else "wall"


def _as_declared(candidate: CandidateSource, device: str) -> DescribedImplementation:
    """A candidate as what an author would have declared."""
    why = f"{candidate.path.name}, sha256 {candidate.sha256[:12]}"
    return DescribedImplementation(CANDIDATE, "variant", device, str(candidate.path), why=why)


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
