"""Sampling: passes over all implementations in the order A B B A.

A pass gives every implementation one block of samples. Every second pass runs in reverse, so that a drift of the
machine affects all alike. Before each sample the judge renews the inputs. Implementations whose blocks have one sample
share the input refresh: within a pass all are given the same values.
"""

import math
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from attrs import define, evolve, field

from aiperf_core.devices.telemetry import waiting_s
from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.harness.run.options import COMPILING
from aiperf_core.measurements import Estimate, Steady
from aiperf_core.results.models import Finding, Verdict
from aiperf_core.stats.intervals import Blocks, half_width, ratio_interval, verdict

WARMUP_SAMPLES = 2
# An implementation whose calls take so long is warm after the first two.
WARMUP_S = 0.1
# A sample lasts at least so many times the cost of its clock; a shorter call is timed several times in a row. That is
# possible only with a warm cache and without state.
LEAST_COSTS, MOST_CALLS = 50, 1000
# The part of a sample that the clock may cost where it cannot be made longer; above the first, a warning.
NOTED_COST, MOST_COST = 0.2, 0.8
# Short calls are taken in blocks of about this length, after one that is not counted: a process that has just woken is
# slow. Longer calls are taken one at a time, so that all implementations can share each renewal of the inputs.
BLOCK_S = 0.001
MAX_BLOCK = 16
# Shorter blocks, down to this length, where the least passes with longer ones would take more than the budget.
SHORTENED_BLOCK = 4
# Passes of a round, whatever the budget.
MIN_PASSES = 4
JUDGED_FRACTION = 0.25
# The part of the blocks of short calls that have one sample more, with a fingerprint; longer calls all have one.
FINGERPRINTED_BLOCKS, FINGERPRINTED_S = 0.3, 0.01
# A sample is also judged after so many that were not.
LONGEST_UNJUDGED = 12
# Samples of an implementation alone in one round, and their time: the smaller of the share of the round's budget and
# the limit.
MIN_ISOLATED, MAX_ISOLATED, ISOLATED_SHARE, ISOLATED_S = 6, 200, 0.1, 0.2
# Samples that are taken of a suspect before a finding, and for about how long.
LEAST_RESAMPLED, MOST_RESAMPLED, RESAMPLING_S = 8, 128, 2.0
_SEED_BITS = 62
# The number of seeds where their guard is switched off.
_GUESSABLE = 4
# A single call may be so many times shorter when others precede it; so many are tried then.
_WOKEN, _TRIED_CALLS = 20, 8
# Calls that repeat values; many more where they are faster by so much, which a busy machine can do to a few.
_REPETITIONS, _MOST_REPETITIONS, _FASTER = 6, 30, 0.8
# A worker's notices during a sample, in their order.
_NOTICES = ("start", "stop", "fingerprinted")
_MOST_STEADY, _STEADY_STEP, _STEADY_RUNS = 1 << 20, 8, 5


class JudgeError(Exception):
    """The judge failed. The fault lies with the workload, and no implementation can be measured."""


@define
class Clockwork:
    """Where the time of a sampling loop went, in seconds. The fields are those of `Overhead`."""

    samples: int = 0
    timed_s: float = 0.0
    refresh_s: float = 0.0
    flush_s: float = 0.0
    verification_s: float = 0.0
    stopping_s: float = 0.0
    messages_s: float = 0.0


@define(eq=False)
class Sampler:
    """Takes samples of a target's implementations and has them judged.

    clock: the clock that the benchmark is about.
    both_clocks: whether each block ends with a sample by the other clock. A sample on a GPU has one clock only.
    clock_cost_s: what the clock adds to a sample.
    has_state: whether a call changes its inputs, so that they are restored before each sample.
    cold: whether the cache is flushed before each sample.
    first_seed: the seed of the values that the inputs had when they were made.
    off: guards that are switched off.
    untrusting: for untrusted code. Each sample has its own values and delivers its output before it is known whether
        it is judged.
    fingerprints: whether a fingerprint of the output can be queued behind the clock's stop. It can move the stop by
        microseconds, so of short calls only some samples have one, which are judged and not counted.
    after_block: called while the device is as the block left it.
    clockwork: where the time goes.
    order: the implementation of each block.
    seeds: all that were drawn.
    """

    judge: Child
    implementations: list[ImplementationRun]
    clock: str
    both_clocks: bool
    clock_cost_s: float
    has_state: bool
    cold: bool
    first_seed: int
    off: frozenset[str]
    untrusting: bool
    fingerprints: bool
    timeout_s: float
    rng: random.Random
    after_block: Callable[[ImplementationRun], None]
    clockwork: Clockwork = field(factory=Clockwork)
    round_number: int = 0
    order: list[str] = field(factory=list)
    seeds: list[int] = field(factory=list)
    _surely: int = field(init=False)
    _present: int | None = None
    _numbers: dict[str, float] = field(factory=dict)
    _steps: int = 0

    @_surely.default
    def _one_of_the_first(self) -> int:
        return self.rng.randrange(MIN_PASSES)

    @property
    def active(self) -> list[ImplementationRun]:
        """The implementations that are still measured."""
        return [one for one in self.implementations if one.active]

    def warm_up(self, on_sample: Callable[[ImplementationRun], None]) -> None:
        """Take samples that are not counted; the first one of each implementation is judged."""
        for index in range(0 if "warm_up" in self.off else 1 + WARMUP_SAMPLES):
            seed = self._new_seed()
            for one in self.active:
                # The first call may compile, and malloc keeps memory only after it. The second one is like the rest.
                if index <= 1 or one.warmup_s[-1] < WARMUP_S:
                    on_sample(one)
                    self._warm_up_once(one, seed, judged=index == 0, first=index == 0)
        for one in self.active:
            if not one.warmup_s:
                one.calls = one.block_length = 1
                continue
            if not one.calls:
                self._choose_calls(one)
            one.block_length = max(1, min(MAX_BLOCK, round(BLOCK_S / max(one.calls * one.warmup_s[-1], 1e-9))))

    def shorten_blocks(self, budget_s: float, passes: int) -> float:
        """Shorten the blocks so that the passes fit into the budget, as far as possible; return the seconds of a pass.

        A sample of a short call takes much longer than the call: the warm-up has shown how long.
        """
        wanted_s = budget_s / max(1, passes)
        share = min(1.0, wanted_s / max(self._pass_s, 1e-9))
        for one in self.active:
            if one.block_length > SHORTENED_BLOCK:
                one.block_length = max(SHORTENED_BLOCK, int(share * one.block_length))
        return self._pass_s

    @property
    def _pass_s(self) -> float:
        """The time of a pass, by that of the last samples of the warm-up. A longer block has one sample more."""
        return sum((one.block_length + (one.block_length > 1)) * one.whole_sample_s for one in self.active)

    def _choose_calls(self, one: ImplementationRun) -> None:
        """Decide how many calls a sample has, or that they are too short for the clock."""
        one.calls = 1
        if self.cold or self.has_state:
            self._refuse_short_calls(one)
        elif one.warmup_s[-1] < _WOKEN * LEAST_COSTS * self.clock_cost_s:
            self._take_in_a_row(one)

    def _take_in_a_row(self, one: ImplementationRun) -> None:
        """Find how many calls make a sample long enough. A single call after a pause says too little."""
        least = LEAST_COSTS * self.clock_cost_s
        one.calls = _TRIED_CALLS
        self._warm_up_once(one, self._new_seed(), judged=False)
        while one.active and one.calls < MOST_CALLS and (taken := one.calls * one.warmup_s[-1]) < least:
            one.calls = min(MOST_CALLS, max(2 * one.calls, math.ceil(one.calls * least / max(taken, least / 100))))
            self._warm_up_once(one, self._new_seed(), judged=False)
        if one.active and one.warmup_s[-1] >= least:
            one.calls = 1

    def _refuse_short_calls(self, one: ImplementationRun) -> None:
        """Warn of calls that are too short for the clock and cannot be taken in a row, or refuse them."""
        call_s, cost = one.warmup_s[-1], self.clock_cost_s
        share = cost / (max(call_s, 0.0) + cost)
        if share <= NOTED_COST or "clocks_agree" in self.off:
            return
        message = (
            f"a call takes {max(call_s, 0.0) * 1e6:.3g} us and timing it {cost * 1e6:.3g} us, which is {share:.0%} of "
            "a sample: make the workload larger, or declare cache='warm' for work without state, whose calls are then "
            "timed several at a time"
        )
        evidence = {"call_s": call_s, "clock_cost_s": cost}
        if share > MOST_COST:
            one.stop(Verdict.UNTRUSTED, message, Finding("timing.timer_granularity", "invalid", message, evidence))
        else:
            one.findings.append(Finding("timing.timer_granularity", "warning", message, evidence))

    def isolate(self, one: ImplementationRun, round_budget_s: float) -> None:
        """Take samples of one implementation without the others in between, to see whether taking turns disturbs it."""
        until = time.monotonic() + min(ISOLATED_S, ISOLATED_SHARE * round_budget_s)
        for taken in range(MAX_ISOLATED):
            if not one.active or (taken >= MIN_ISOLATED and time.monotonic() >= until):
                return
            sample = self._sample(one, self._new_seed(), self.clock)
            if sample is None or not self._plausible(one, sample) or not self._inspect(one, None):
                return
            one.isolated_samples_s.append(one.per_call(self.clock, _by_clock(sample), one.calls))

    def resample(self, baseline: ImplementationRun, one: ImplementationRun, suspected: Callable[[], object]) -> None:
        """Take samples that are not counted of a suspect and of the baseline in turns, while the suspicion holds.

        On a busy machine answers are late by chance, but not all samples, and the baseline's are as late. The time
        between request and answer in which others kept the process, or the supervisor, from running is taken off.

        Of untrusted code, work of the process's own threads is no excuse, and a sample of which more would be taken off
        than there is says nothing.
        """
        if not suspected():
            return
        one.looks, one.bracket_looks = ([], []), ([], [])
        watchers = [process_monitor.ProcessMonitor(side.worker.pid) for side in (baseline, one)]
        until = time.monotonic() + RESAMPLING_S
        for number in range(MOST_RESAMPLED):
            if number >= LEAST_RESAMPLED and (not suspected() or time.monotonic() >= until):
                return
            sides = zip(one.looks, one.bracket_looks, (baseline, one), watchers, strict=True)
            for side, brackets, looked_at, watcher in sides:
                sample = self._sample(looked_at, self._new_seed(), self.clock, watcher=watcher)
                if sample is None or not self._inspect(looked_at, None):
                    return
                waited_s, own_s = sample["kept_waiting_s"]
                wall_s, bracket_s = sample["wall_s"], sample["bracket_s"] - own_s
                if wall_s is not None and (bracket_s >= wall_s or not self.untrusting):
                    brackets.append((wall_s, bracket_s))
                answer = looked_at.answer_of(sample)
                beside_s, begun_s = answer.beside_s - waited_s - own_s, answer.begun_s
                if begun_s is not None:
                    begun_s = max(0.0, begun_s - waited_s - own_s)
                if beside_s >= 0 or not self.untrusting:
                    side.append(evolve(answer, begun_s=begun_s, answered_s=answer.held_s + max(0.0, beside_s)))

    def _warm_up_once(self, one: ImplementationRun, seed: int, *, judged: bool, first: bool = False) -> None:
        start = time.perf_counter()
        sample = self._sample(one, seed, self.clock, fingerprinted=judged, first=first)
        if sample is not None:
            one.warmup_s.append(one.per_call(self.clock, _by_clock(sample), one.calls or 1))
            self._inspect(one, sample if judged else None)
        one.whole_sample_s = time.perf_counter() - start

    def repeat(self, one: ImplementationRun) -> None:
        """Take samples with refreshed inputs, each followed by a sample that repeats them.

        Code that remembers is faster with repeated inputs. Each sample has one call: of several in a row only the first
        would have refreshed inputs. Where a few repeated calls are faster, many more are taken.
        """
        for number in range(_MOST_REPETITIONS):
            if number >= _REPETITIONS and not _faster(one.repeated_s, one.fresh_s):
                return
            for times, fresh in ((one.fresh_s, True), (one.repeated_s, False)):
                seed = self._new_seed() if fresh else self._present or 0
                # Written again even if they are the same: renewing must do the same to caches and clocks.
                self._present = None
                sample = self._sample(one, seed, self.clock, fresh=fresh, calls=1)
                if sample is None or not self._inspect(one, None):
                    return
                times.append(one.per_call(self.clock, _by_clock(sample), 1))

    def run_steadily(self, one: ImplementationRun, least_s: float, enough: Callable[[], bool]) -> None:
        """Time calls without a pause by the supervisor's clock, once and up to a few times, for at least `least_s`.

        enough: whether the runs so far answer what they are made for.
        """
        calls = max(1, one.calls)
        for _ in range(_STEADY_RUNS):
            before = waiting_s(one.worker.pid)
            taken = self.bracket_steady(one, calls)
            while taken is not None and taken < least_s and calls < _MOST_STEADY:
                # A supervisor that reads both notices late sees almost no time between them: the steps are limited.
                wanted = math.ceil(1.2 * calls * least_s / max(taken, 1e-9))
                calls = min(_MOST_STEADY, _STEADY_STEP * calls, max(2 * calls, wanted))
                before = waiting_s(one.worker.pid)
                taken = self.bracket_steady(one, calls)
            if taken is None:
                return
            after = waiting_s(one.worker.pid)
            waited = None if before is None or after is None else max(0.0, after - before)
            one.steady.append(Steady(calls, taken, waited))
            if enough():
                return

    def run_profiled(self, one: ImplementationRun) -> list[Steady]:
        """The same runs under CUPTI: the same number of calls without a pause."""
        runs = []
        for _ in range(_STEADY_RUNS if one.steady else 0):
            calls = one.steady[-1].calls
            taken = self.bracket_steady(one, calls, profiled=True)
            if taken is None:
                break
            runs.append(Steady(calls, taken))
        return runs

    def bracket_steady(self, one: ImplementationRun, calls: int, *, profiled: bool = False) -> float | None:
        """The time of calls without a pause, by the supervisor's clock; None where the worker failed."""
        notices = _Notices(one.worker.guarded)
        try:
            one.worker.ask("steady", timeout=self.timeout_s, on_notice=notices.note, calls=calls, profiled=profiled)
            return notices.bracket_s
        except (ChildError, KeyError) as error:
            one.fail(error, "did not send both notices")
            return None

    def run_pass(
        self, number: int, on_block: Callable[[ImplementationRun], None], *, only: ImplementationRun | None = None
    ) -> None:
        """Give every active implementation one block, or `only` one of them."""
        places = list(enumerate(self.implementations))
        seeds = [self._new_seed() for _ in range(max(one.block_length for one in self.active))]
        # Of untrusted code every sample is judged; of all other code some by chance, and one of the first for certain.
        judged = [self.untrusting or self.rng.random() < JUDGED_FRACTION for _ in seeds]
        if number == self._surely:
            judged[0] = True
        first_step, self._steps = self._steps, self._steps + len(seeds)
        for place, one in places if number % 2 == 0 else reversed(places):
            if one.active and only in (None, one):
                on_block(one)
                self.order.append(one.name)
                block = number * len(places) + place
                self._run_block(one, block, first_step, seeds[: one.block_length], judged)
                self.after_block(one)

    def _run_block(
        self, one: ImplementationRun, block: int, first_step: int, seeds: list[int], judged: list[bool]
    ) -> None:
        if len(seeds) > 1:
            self._warm_up_once(one, self._new_seed(), judged=False)
        long = bool(one.warmup_s) and one.warmup_s[-1] >= FINGERPRINTED_S
        extra = self.fingerprints and not long and self.rng.random() < FINGERPRINTED_BLOCKS
        fingerprinted = self.rng.randrange(len(seeds)) if extra else None
        for index, seed in enumerate(seeds):
            if index == fingerprinted and one.active:
                self._warm_up_once(one, self._new_seed(), judged=True)
            if not one.active:
                return
            sample = self._sample(one, seed, self.clock, fingerprinted=long)
            if sample is None:
                return
            chosen = judged[index] or one.since_judged >= LONGEST_UNJUDGED
            self._record(one, block, first_step + index, sample, judged=chosen)
            if not self._plausible(one, sample) or not self._inspect(one, sample if chosen else None):
                return
        if self.both_clocks:  # one more sample by the other clock, so that both are recorded
            sample = self._sample(one, self._new_seed(), "wall" if self.clock == "device" else "device")
            if sample is not None:
                self._record(one, block, first_step, sample, judged=False)
                self._inspect(one, None)

    def _record(self, one: ImplementationRun, block: int, step: int, sample: dict[str, Any], *, judged: bool) -> None:
        one.record((self.round_number, block, step), sample, judged=judged)
        self.clockwork.samples += 1
        self.clockwork.timed_s += sample["bracket_s"]

    def _sample(
        self,
        one: ImplementationRun,
        seed: int,
        clock: str,
        *,
        fresh: bool = True,
        calls: int | None = None,
        fingerprinted: bool = False,
        first: bool = False,
        watcher: process_monitor.ProcessMonitor | None = None,
    ) -> dict[str, Any] | None:
        """Time a sample; None where the implementation's part has ended.

        fresh: whether the values are new. An untrusted process is given its own values then.
        calls: in the sample; None for the implementation's usual number.
        fingerprinted: whether a fingerprint of the output is queued behind the clock's stop.
        first: whether it is the first call in its process, in which an untrusted implementation may compile.
        watcher: sees how long others kept the process, and the supervisor, from running between request and answer.
        """
        notices = _Notices(one.worker.guarded, one.worker.pid if self.untrusting else None)
        try:
            start = time.perf_counter()
            one.worker.ask("ready", timeout=self.timeout_s)
            self.clockwork.messages_s += time.perf_counter() - start
            watched = self._wait_stopped(one.worker)
            stopped = process_monitor.process_s(one.worker.pid) if watched else None
            self._renew(seed, own=self.untrusting and fresh and "fresh_values" not in self.off)
            # Without another wait: a process that something continued is given no time to stop.
            continued = process_monitor.process_s(one.worker.pid) if watched else None
            self._wait_stopped(self.judge)  # its threads would take processors from the call
            standing = watcher and (watcher.standing(), process_monitor.own_wait_s())
            asked = time.perf_counter()
            answer = one.worker.ask(
                "sample",
                timeout=self.timeout_s * (COMPILING if first and self.untrusting else 1),
                on_notice=notices.note,
                clock=clock,
                numbers=self._numbers,
                calls=calls or one.calls or 1,
                deliver=self.untrusting,
                fingerprinted=fingerprinted and self.fingerprints,
            )
            answered = time.perf_counter()
            self.clockwork.messages_s += answered - asked - notices.bracket_s
            told = answers.sample(answer)
            probed = self.untrusting and "global_state" not in self.off
            if probed and one.check_integrity_probe(told["integrity_probe"]):
                return None
            return {
                **told,
                "bracket_s": notices.bracket_s,
                "begun_s": notices.begun_s(asked) if self.untrusting else None,
                "answered_s": notices.fingerprinted(answered) - asked,
                "replied_s": answered - asked if self.untrusting and told["integrity_probe"] is None else None,
                "ahead_s": notices.used_s(continued),
                "stopped_s": None if stopped is None or continued is None else continued - stopped,
                "kept_waiting_s": self._kept_waiting(watcher, standing) if watcher and standing else (0.0, 0.0),
            }
        except (ChildError, KeyError, ValueError) as error:
            one.fail(error, "sent no sample")
            self._present = None
            return None

    def _kept_waiting(
        self, watcher: process_monitor.ProcessMonitor, then: tuple[process_monitor.Standing | None, float]
    ) -> tuple[float, float]:
        """How long others kept a process, and the supervisor, from running since then.

        An untrusted process's own threads may have kept the supervisor: their processor time is taken off.
        """
        before, own_before = then
        now, own_s = watcher.standing(), process_monitor.own_wait_s() - own_before
        if before is None or now is None:
            return 0.0, own_s
        own_s -= now.others_s(before) if self.untrusting else 0.0
        return now.kept_waiting_s(before), max(0.0, own_s)

    def _wait_stopped(self, child: WorkerHandle | Child) -> bool:
        """In a run of untrusted code, wait until a process has stopped. Whether it is one that is stopped."""
        watched = self.untrusting and child.paused
        if watched:
            start = time.perf_counter()
            process_monitor.wait_stopped(child.pid)
            self.clockwork.stopping_s += time.perf_counter() - start
        return watched

    def _renew(self, seed: int, *, own: bool) -> None:
        """Put the values of a seed in place, and the caches into the declared state.

        Values that are `own` are shared with no other implementation.
        """
        start = time.perf_counter()
        if self.untrusting:
            self._ask_judge("clear")
        if own or seed != self._present:
            self._present = self._new_seed() if own else seed
            self._numbers = self._ask_judge("renew", seed=self._present)
        elif self.has_state:
            self._ask_judge("restore")
        refreshed = time.perf_counter()
        self.clockwork.refresh_s += refreshed - start
        if self.cold:
            self._ask_judge("flush")
            self.clockwork.flush_s += time.perf_counter() - refreshed

    def _plausible(self, one: ImplementationRun, sample: dict[str, Any]) -> bool:
        """Refuse a time that is not positive, instead of clamping it."""
        reported = _by_clock(sample)
        if reported > 0 and one.per_call(self.clock, reported, one.calls) > 0:
            return True
        cost_s = one.clock_cost_s.get(self.clock, 0.0)
        message = (
            f"a sample took {reported * 1e6:.6g} us by the {self.clock} clock, which itself costs {cost_s * 1e6:.6g} "
            "us; a time must be positive"
        )
        return not one.find("timing.event_gaps", message, {"reported_s": reported})

    def _inspect(self, one: ImplementationRun, chosen: dict[str, Any] | None) -> bool:
        """Check the inputs after a sample, and the output of a chosen one. Return whether the implementation stays."""
        start = time.perf_counter()
        judged = chosen is not None and "judged_output" not in self.off
        try:
            return self._inputs_intact(one, judged) and (not judged or self._output_right(one, chosen))
        except (ChildError, ValueError) as error:
            one.fail(error, "sent no output")
            return False
        finally:
            one.since_judged = 0 if judged else one.since_judged + 1
            self.clockwork.verification_s += time.perf_counter() - start

    def _inputs_intact(self, one: ImplementationRun, judged: bool) -> bool:
        if "inputs_intact" in self.off:
            return True
        changed = self._ask_judge("changed", thorough=judged)
        if not changed:
            return True
        self._ask_judge("repair")
        message = f"the call changed its inputs: {', '.join(changed)}; a workload names what may change as state"
        return not one.find("memory.input_mutation", message, {"inputs": changed})

    def _output_right(self, one: ImplementationRun, chosen: dict[str, Any] | None) -> bool:
        delivered = chosen["output"] if chosen and self.untrusting else None
        copied = delivered or answers.output(one.worker.ask("output", timeout=self.timeout_s))
        one.aliases = sorted({*(one.aliases or []), *copied["aliases"]})
        compared = self._ask_judge("compare", lossy=one.declared.lossy, numbers=copied["numbers"])
        one.judged += 1
        if compared["quality"] is not None:
            one.quality = max(one.quality or 0.0, compared["quality"])
        if compared["error"] is not None:
            one.worst = compared["worst"]
            issue = "output.quality_below_budget" if one.declared.lossy else "output.wrong_values"
            return not one.find(issue, compared["error"], {})
        one.worst = max(one.worst or 0.0, compared["worst"])
        if copied["late"] and "late_write" not in self.off:
            message = "the output changed after the clock had stopped: the work was not finished within the timed call"
            return not one.find("timing.incomplete_async", message, {})
        return True

    def _ask_judge(self, do: str, **arguments: Any) -> Any:
        try:
            return self.judge.ask(do, timeout=self.timeout_s, **arguments)
        except ChildError as error:
            raise JudgeError(str(error)) from error

    def _new_seed(self) -> int:
        if "fresh_values" in self.off:
            return self.first_seed
        guessable = "seeds" in self.off
        self.seeds.append(len(self.seeds) % _GUESSABLE if guessable else self.rng.getrandbits(_SEED_BITS))
        return self.seeds[-1]


@define
class _Notices:
    """The times of a worker's notices by the supervisor's clock: start, stop, fingerprint of the output.

    _guarded: whether each notice may come once, in this order. Otherwise the first of each counts.
    _watched: a process whose processor time at the start is kept.
    """

    _guarded: bool
    _watched: int | None = None
    _seen: dict[str, int] = field(factory=dict)
    _used_s: float | None = None

    def note(self, notice: str) -> None:
        """Raises `ChildError` for one that does not come next."""
        if self._guarded and notice not in _NOTICES[len(self._seen) : len(self._seen) + 1]:
            raise ChildError("protocol", f"sent the notice {notice!r} after {', '.join(self._seen) or 'none'}")
        self._seen.setdefault(notice, time.perf_counter_ns())
        if notice == "start" and self._watched is not None:
            self._used_s = process_monitor.process_s(self._watched)

    @property
    def bracket_s(self) -> float:
        """Seconds from the start to the stop. Raises `KeyError` where one of them is missing."""
        return (self._seen["stop"] - self._seen["start"]) / 1e9

    def fingerprinted(self, answered: float) -> float:
        """When the output was ready, by `time.perf_counter`: before it was delivered, or with the answer."""
        return self._seen["fingerprinted"] / 1e9 if "fingerprinted" in self._seen else answered

    def begun_s(self, asked: float) -> float:
        """Seconds from a time of `time.perf_counter` to the start."""
        return self._seen["start"] / 1e9 - asked

    def used_s(self, before: float | None) -> float | None:
        """Processor time that the process had used by the start, beyond `before`; None where either is unknown."""
        return None if self._used_s is None or before is None else self._used_s - before


def _faster(repeated_s: list[float], fresh_s: list[float]) -> bool:
    return median(repeated_s) < _FASTER * median(fresh_s)


def _by_clock(sample: dict[str, Any]) -> float:
    """A sample's time by the clock that it was taken with, in seconds."""
    return float(sample["wall_s"] if sample["device_s"] is None else sample["device_s"])


def undecided(
    implementations: list[ImplementationRun], clock: str, width: float, round_number: int
) -> tuple[ImplementationRun, Estimate | None] | None:
    """The first active implementation whose speedup in one round has a wider interval, with that interval.

    None where all intervals are narrower. Without a baseline there are no speedups: then it is the baseline.
    """
    baseline = implementations[0]
    if not baseline.active:
        return baseline, None
    length = len(implementations)
    top = _of_round(baseline.blocks(clock, length), round_number)
    for one in implementations[1:]:
        if one.active:
            interval = ratio_interval(top, _of_round(one.blocks(clock, length), round_number))
            if interval is None or half_width(interval) > width:
                return one, interval
    return None


def verdicts(
    implementations: list[ImplementationRun], clock: str, floor: float, round_number: int
) -> dict[str, Verdict]:
    """What the intervals of the speedups in one round allow to say, by active implementation.

    INCONCLUSIVE where there is no interval. Empty without a baseline.
    """
    baseline, length = implementations[0], len(implementations)
    if not baseline.active:
        return {}
    top = _of_round(baseline.blocks(clock, length), round_number)
    found = {}
    for one in implementations[1:]:
        if one.active and one.declared.role != "control":
            interval = ratio_interval(top, _of_round(one.blocks(clock, length), round_number))
            found[one.name] = verdict(interval, floor) if interval else Verdict.INCONCLUSIVE
    return found


def _of_round(blocks: Blocks, round_number: int) -> Blocks:
    return blocks.only(blocks.rounds == round_number)
