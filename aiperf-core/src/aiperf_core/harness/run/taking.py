"""One sample: the judge renews the inputs, the worker times its calls, the supervisor watches; then it is checked."""

import random
import time
from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field, frozen

from aiperf_core.devices.witness import Quiet
from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Trust
from aiperf_core.measurements import Batch
from aiperf_core.results.models import Sighting
from aiperf_core.simulated import CLOCK
from aiperf_core.stats.observations import Clocks
from aiperf_core.stats.witness import OFF

_SEED_BITS = 62
# The number of seeds where their guard is switched off.
_GUESSABLE = 4
# A worker's notices during a sample, in their order.
_NOTICES = ("start", "stop", "fingerprinted")


class JudgeError(Exception):
    """The judge failed. The fault lies with the workload, and no implementation can be measured."""


@define
class Clockwork:
    """Where the time of a run went, in seconds. The fields are those of `Overhead`."""

    setup_s: float = 0.0
    warmup_s: float = 0.0
    sampling_s: float = 0.0
    checks_s: float = 0.0
    samples: int = 0
    timed_s: float = 0.0
    refresh_s: float = 0.0
    flush_s: float = 0.0
    verification_s: float = 0.0
    stopping_s: float = 0.0
    messages_s: float = 0.0

    @property
    def other_s(self) -> float:
        """The rest of the time of sampling."""
        parts = self.timed_s + self.refresh_s + self.flush_s + self.verification_s + self.stopping_s + self.messages_s
        return max(0.0, self.sampling_s - parts)


@frozen(kw_only=True)
class Method:
    """How the samples of a target are taken.

    clock: the clock that the benchmark is about.
    both_clocks: whether each block ends with a sample by the other clock. A sample on a GPU has one clock only.
    clocks: what the clocks add to a sample.
    has_state: whether a call changes its inputs, so that they are restored before each sample.
    cold: whether the cache is flushed before each sample.
    off: guards that are switched off.
    trust: how the code is treated.
    fingerprints: whether a fingerprint of the output can be queued behind the clock's stop. It can move the stop by
        microseconds, so of short calls only some samples have one, which are judged and not counted.
    timeout_s: of a sample.
    witnessed: whether the witness runs before the samples by the wall clock. It runs in the worker's process, so that
        of untrusted code it would prove nothing.
    answers_only: whether blocks have one sample, which is judged, as are all of the warm-up.
    """

    clock: str
    clocks: Clocks
    both_clocks: bool
    has_state: bool
    cold: bool
    off: frozenset[str]
    trust: Trust
    fingerprints: bool
    timeout_s: float
    witnessed: bool = False
    answers_only: bool = False

    @property
    def clock_cost_s(self) -> float:
        """Cost of the clock in a sample, in seconds."""
        return self.clocks.cost_s.get(self.clock, 0.0)

    @property
    def is_simulated(self) -> bool:
        """Whether samples have virtual times, for which nothing need be warm and nothing is too short."""
        return self.clock == CLOCK

    def call_s(self, sample: Sample, calls: int) -> float:
        """The time of a call in a sample, without the clock's own cost."""
        return self.clocks.per_call(self.clock, sample.time_s, calls)


@define
class Notices:
    """The times of a worker's notices by the supervisor's clock: start, stop, fingerprint of the output.

    _guarded: whether each notice may come once, in this order. Otherwise the first of each counts.
    """

    _guarded: bool
    _times_ns: dict[str, int] = field(factory=dict)

    def note(self, notice: str) -> None:
        """Raises `ChildError` for one that does not come next."""
        if self._guarded and notice not in _NOTICES[len(self._times_ns) : len(self._times_ns) + 1]:
            raise ChildError("protocol", f"sent the notice {notice!r} after {', '.join(self._times_ns) or 'none'}")
        self._times_ns.setdefault(notice, time.perf_counter_ns())

    @property
    def bracket_s(self) -> float:
        """Seconds from the start to the stop. Raises `KeyError` where one of them is missing."""
        return (self._times_ns["stop"] - self._times_ns["start"]) / 1e9

    def fingerprinted(self, answered: float) -> float:
        """When the output was ready, by `time.perf_counter`: before it was delivered, or with the answer."""
        return self._times_ns["fingerprinted"] / 1e9 if "fingerprinted" in self._times_ns else answered

    def begun_s(self, asked: float) -> float:
        """Seconds from a time of `time.perf_counter` to the start."""
        return self._times_ns["start"] / 1e9 - asked


@define(eq=False)
class SampleTaker:
    """Takes single samples, and has them judged.

    rng: draws the seeds.
    first_seed: the seed of the values that the inputs had when they were made.
    drawn: all seeds that were drawn.
    quiet: the quiet time of the witness.
    clockwork: where the time goes.
    present: the seed of the values in the memory of the last sample; None where it is unknown.
    """

    judge: Child
    method: Method
    rng: random.Random
    first_seed: int
    quiet: Quiet = field(factory=Quiet)
    drawn: list[int] = field(factory=list)
    clockwork: Clockwork = field(factory=Clockwork)
    present: int | None = None
    _numbers: dict[str, float] = field(factory=dict)
    _memory: int = 0

    def new_seed(self) -> int:
        """Draw a seed."""
        if "fresh_values" in self.method.off:
            return self.first_seed
        guessable = "seeds" in self.method.off
        self.drawn.append(len(self.drawn) % _GUESSABLE if guessable else self.rng.getrandbits(_SEED_BITS))
        return self.drawn[-1]

    def ask_judge(self, do: str, **arguments: Any) -> Any:
        """Make a request to the judge. Raises `JudgeError` where it failed."""
        try:
            return self.judge.ask(do, timeout=self.method.timeout_s, **arguments)
        except ChildError as error:
            raise JudgeError(str(error)) from error

    def take(
        self,
        participant: Participant,
        seed: int | None = None,
        clock: str | None = None,
        *,
        fresh: bool = True,
        calls: int | None = None,
        fingerprinted: bool = False,
        first: bool = False,
        watcher: process_monitor.ProcessMonitor | None = None,
    ) -> Sample | None:
        """Time a sample; None where the implementation's part has ended.

        seed: of the values; None draws one.
        clock: None for the clock that the benchmark is about.
        fresh: whether the values are new. An untrusted process is given its own values then.
        calls: in the sample; None for the implementation's usual number.
        fingerprinted: whether a fingerprint of the output is queued behind the clock's stop.
        first: whether it is the first call in its process, in which an untrusted implementation may compile.
        watcher: sees how long others kept the process, and the supervisor, from running between request and answer.
        """
        method = self.method
        seed = self.new_seed() if seed is None else seed
        own = method.trust.untrusted and fresh and "fresh_values" not in method.off
        renew, timeout_s = (lambda: self._renew(participant, seed, own=own)), method.trust.timeout_s
        try:
            stopped_s = self._prepare(participant, renew)
            sample = self._time(
                participant,
                timeout_s(method.timeout_s, first=first),
                watcher,
                clock=clock or method.clock,
                witness=self._witness(participant, clock or method.clock),
                numbers=self._numbers,
                calls=calls or participant.pace.calls or 1,
                deliver=method.trust.untrusted,
                fingerprinted=fingerprinted and method.fingerprints,
            )
        except (ChildError, KeyError, ValueError) as error:
            participant.fail(error, "sent no sample")
            self.present = None
            return None
        return sample and evolve(sample, stopped_s=stopped_s)

    def _witness(self, participant: Participant, clock: str) -> dict[str, Any] | None:
        """The witness before a sample, as the worker is asked for it; None for none."""
        turns, quiet_s = self.quiet.turns(participant.pace.whole_sample_s), self.quiet.turn_s
        if not (self.method.witnessed and clock == "wall" and turns):
            return None
        return {"turns": turns, "at_most_s": quiet_s and (1 + OFF) * quiet_s}

    def _prepare(self, participant: Participant, renew: Callable[[], None]) -> float | None:
        """Have a process get ready, and renew the inputs while it is stopped.

        Return the processor time that it used meanwhile; None for one that is not stopped.
        """
        worker = participant.worker
        start = time.perf_counter()
        self._get_ready(participant)
        self.clockwork.messages_s += time.perf_counter() - start
        watched = self._stop(participant)
        stopped = process_monitor.process_s(worker.pid) if watched else None
        renew()
        # Without another wait: a process that something continued is given no time to stop.
        continued = process_monitor.process_s(worker.pid) if watched else None
        self._wait_stopped(self.judge)  # its threads would take processors from the call
        return None if stopped is None or continued is None else continued - stopped

    def _get_ready(self, participant: Participant) -> None:
        participant.worker.ask("ready", timeout=self.method.timeout_s)

    def _stop(self, participant: Participant) -> bool:
        return self._wait_stopped(participant.worker)

    def _time(
        self,
        participant: Participant,
        timeout_s: float,
        watcher: process_monitor.ProcessMonitor | None,
        **request: Any,
    ) -> Sample | None:
        """Request a sample, and watch its course. Raises `ChildError`, `KeyError`, `ValueError`."""
        notices = Notices(participant.worker.guarded)
        standing = watcher and (watcher.standing(), process_monitor.own_wait_s())
        asked = time.perf_counter()
        answer = participant.worker.ask("sample", timeout=timeout_s, on_notice=notices.note, **request)
        answered, sample = time.perf_counter(), answers.sample(answer)
        answered -= sample.witness_took_s
        self.clockwork.messages_s += answered - asked - notices.bracket_s
        if sample.witness_s is not None:
            self.quiet.note(sample.witness_s)
        if self.method.trust.untrusted:  # beside trusted code other threads may be busy
            sample = evolve(sample, begun_s=notices.begun_s(asked), replied_s=answered - asked)
        return evolve(
            sample,
            bracket_s=notices.bracket_s,
            answered_s=notices.fingerprinted(answered) - asked,
            kept_waiting_s=self._kept_waiting(watcher, standing) if watcher and standing else (0.0, 0.0),
        )

    def bracket_steady(self, participant: Participant, calls: int, *, profiled: bool = False) -> float | None:
        """The time of calls without a pause, by the supervisor's clock; None where the worker failed."""
        notices, timeout = Notices(participant.worker.guarded), self.method.timeout_s
        try:
            participant.worker.ask("steady", timeout=timeout, on_notice=notices.note, calls=calls, profiled=profiled)
            return notices.bracket_s
        except (ChildError, KeyError) as error:
            participant.fail(error, "did not send both notices")
            return None

    def take_batch(self, participant: Participant, calls: int) -> tuple[Batch, dict[str, Any]]:
        """Time calls in a row on values of their own, and compare their outputs. Raises `ChildError`, `ValueError`."""
        timeout, seeds = self.method.timeout_s, [self.new_seed() for _ in range(calls)]
        inputs: list[Any] = []

        def renew() -> None:
            inputs[:], self.present = self.ask_judge("renew_batch", seeds=seeds), None

        self._prepare(participant, renew)
        asked = time.perf_counter()
        outputs = participant.worker.ask("batch", timeout=timeout, numbers=inputs)
        bracket_s = time.perf_counter() - asked
        self.ask_judge("keep_batch")
        numbers = [answers.numbers(output) for output in outputs]
        compared = self.ask_judge("compare_batch", seeds=seeds, lossy=participant.declared.lossy, numbers=numbers)
        return Batch(calls, bracket_s), compared

    def _kept_waiting(
        self, watcher: process_monitor.ProcessMonitor, then: tuple[process_monitor.Standing | None, float]
    ) -> tuple[float, float]:
        """How long others kept a process, and the supervisor, from running since then."""
        before, own_before = then
        now, own_s = watcher.standing(), process_monitor.own_wait_s() - own_before
        if before is None or now is None:
            return 0.0, own_s
        return now.kept_waiting_s(before), self.method.trust.excused_s(own_s, now.others_s(before))

    def _wait_stopped(self, child: WorkerHandle | Child) -> bool:
        """In a run of untrusted code, wait until a process has stopped. Whether it is one that is stopped."""
        start = time.perf_counter()
        watched = self.method.trust.wait_stopped(child)
        if watched:
            self.clockwork.stopping_s += time.perf_counter() - start
        return watched

    def _renew(self, participant: Participant, seed: int, *, own: bool) -> None:
        """Put the values of a seed into the memory of an implementation, and the caches into the declared state.

        Values that are `own` are shared with no other implementation.
        """
        start = time.perf_counter()
        if self.method.trust.untrusted:
            self.ask_judge("turn_to", memory=participant.memory)
        if own or (participant.memory, seed) != (self._memory, self.present):
            self._memory = participant.memory
            self.present = self.new_seed() if own else seed
            self._numbers = self.ask_judge("renew", seed=self.present)
        elif self.method.has_state:
            self.ask_judge("restore")
        refreshed = time.perf_counter()
        self.clockwork.refresh_s += refreshed - start
        if self.method.cold:
            self.ask_judge("flush")
            self.clockwork.flush_s += time.perf_counter() - refreshed

    # --- checks of a sample

    def is_plausible(self, one: Participant, sample: Sample) -> bool:
        """Refuse a time that is not positive, instead of clamping it."""
        method, reported = self.method, sample.time_s
        if reported > 0 and method.call_s(sample, one.pace.calls) > 0:
            return True
        message = (
            f"a sample took {reported * 1e6:.6g} us by the {method.clock} clock, which itself costs "
            f"{method.clock_cost_s * 1e6:.6g} us; a time must be positive"
        )
        return not one.find(Sighting("timing.event_gaps", message, {"reported_s": reported}))

    def inspect(self, one: Participant, chosen: Sample | None) -> bool:
        """Check the inputs after a sample, and the output of a chosen one. Return whether the implementation stays."""
        start = time.perf_counter()
        judged = chosen is not None and "judged_output" not in self.method.off
        try:
            return self._inputs_intact(one, judged) and (not judged or self._output_right(one, chosen))
        except (ChildError, ValueError) as error:
            one.fail(error, "sent no output")
            return False
        finally:
            one.pace.since_judged = 0 if judged else one.pace.since_judged + 1
            self.clockwork.verification_s += time.perf_counter() - start

    def _inputs_intact(self, one: Participant, judged: bool) -> bool:
        if "inputs_intact" in self.method.off:
            return True
        changed = self.ask_judge("changed", thorough=judged)
        if not changed:
            return True
        self.ask_judge("repair")
        message = f"the call changed its inputs: {', '.join(changed)}; a workload names what may change as state"
        return not one.find(Sighting("memory.input_mutation", message, {"inputs": changed}))

    def _output_right(self, one: Participant, chosen: Sample | None) -> bool:
        method = self.method
        delivered = chosen.output if chosen and method.trust.untrusted else None
        copied = delivered or answers.output(one.worker.ask("output", timeout=method.timeout_s))
        one.process.aliases = sorted({*(one.process.aliases or []), *copied.aliases})
        compared = self.ask_judge("compare", lossy=one.declared.lossy, numbers=copied.numbers)
        one.recorder.verified(compared)
        wrong = wrong_output(one, compared)
        if wrong is not None:
            return not one.find(wrong)
        if copied.late and "late_write" not in method.off:
            message = "the output changed after the clock had stopped: the work was not finished within the timed call"
            return not one.find(Sighting("timing.incomplete_async", message))
        return True


def wrong_output(one: Participant, compared: dict[str, Any], where: str = "") -> Sighting | None:
    """Sighting of a wrong output by the judge's comparison; None where the output is right. `where` begins the text."""
    if compared["error"] is None:
        return None
    issue = "output.quality_below_budget" if one.declared.lossy else "output.wrong_values"
    return Sighting(issue, f"{where}{compared['error']}")
