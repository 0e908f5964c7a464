"""What is looked at once, after the samples of the last round: suspicions, repeated values, CUPTI, ranks, energy."""

import contextlib
import math
import os
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define

from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.isolation.process_monitor import ProcessMonitor
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run import energy
from aiperf_core.harness.run.batches import Batches
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.sampler import Sampler
from aiperf_core.harness.run.setup import Setup
from aiperf_core.measurements import Energy, Rank
from aiperf_core.results.models import Sighting
from aiperf_core.stats import clock_agreement
from aiperf_core.stats.conditions import warm_after_flush
from aiperf_core.stats.judge import suspicion

# CUPTI starts in seconds, and in many where every process of a busy machine starts it at once.
_CUPTI_TIMEOUT_S = 180.0
_ENERGY_PLAN = energy.Plan(idle_s=0.5, run_s=0.5, updates=10)


@define(eq=False)
class LastRound:
    """The last round's checks that need the workers.

    implementations: the baseline first.
    tell: called at the start of each step, with its implementation if it has one.
    """

    setup: Setup
    sampler: Sampler
    implementations: list[Participant]
    telemetry: Telemetry
    tell: Callable[[str, Participant | None], None]

    def look(self) -> None:
        """Look at all that are active: at a candidate with CUPTI too, and with controls at the rest."""
        options, baseline = self.setup.options, self.implementations[0]
        suspect = options.controls or self.setup.untrusted
        if self.setup.plan.world_size:
            self._note_communication()
        if options.controls and self.setup.cold:
            self._probe_flush()
        for one in self._active[1:] if self.setup.resamples and baseline.active else ():
            self.tell("verification: resample", one)
            self.sampler.extra.resample(baseline, one, partial(self.suspicion, one))
        # Of calls in a row only the first has refreshed inputs: code that remembers gains by the others in every tier.
        variants = [one for one in self._active if one.declared.role == "variant"]
        self.repeat([one for one in variants if suspect or one.pace.calls > 1])
        for one in variants if self.setup.in_batches and baseline.active else ():
            self.tell("verification: calls in a row", one)
            Batches(self.sampler.taker).take(baseline, one)
        if self.setup.kind.audited and options.at_end.audit and suspect:
            self._audit()
        if self.setup.plan.world_size:
            for one in self._active:
                one.recorder.note(no_energy="not measured for several ranks")
        elif options.controls and options.at_end.energy:
            self._measure_energy()

    def suspicion(self, one: Participant) -> clock_agreement.Suspicion | None:
        """What an implementation is resampled for before a finding."""
        return suspicion(self.implementations[0].observed, one.observed, self.setup.judging)

    def repeat(self, implementations: list[Participant]) -> None:
        """Sample repeated values; of the baseline too where an implementation is faster on them."""
        for one in implementations:
            self._repeat_one(one)
        if self.implementations[0].active and any(one.process.gains_by_repeating for one in implementations):
            self._repeat_one(self.implementations[0])

    @property
    def _active(self) -> list[Participant]:
        return [one for one in self.implementations if one.active]

    def _repeat_one(self, one: Participant) -> None:
        self.tell("verification: repeat values", one)
        self.sampler.extra.repeat(one)

    def _note_communication(self) -> None:
        """Have every rank make a call in which its collectives are counted, and keep what each rank did."""
        for one in self._active:
            told = one.ask("collectives", answers.collectives, timeout=self.setup.options.timeout_s)
            if told is None:
                continue
            ranks, taken = one.recorder.ranks, one.observed.samples
            kept = zip(ranks.times_s, taken.device_s, taken.calls, strict=True)
            on_device = self.setup.clock == "device"
            samples = [(each, calls) for each, device, calls in kept if (device is not None) == on_device]
            places = self._places(one)
            for number, sent in enumerate(told):
                # A GPU's rank is at work until its last kernel is done. On a processor a rank that waits uses no time.
                on_host = self.setup.kind.on_host
                work_s = statistics.median(
                    (min(each[number]) if on_host else each[number][0]) / n for each, n in samples
                )
                rank = Rank(
                    rank=number,
                    device=self.setup.kind.place(number),
                    work_s=work_s,
                    **sent,
                    **places.get(number, {}),
                )
                ranks.did.append(rank)
            one.recorder.note(ranks=ranks.records())

    def _places(self, one: Participant) -> dict[int, dict[str, Any]]:
        """Of each rank on this machine, the processors that it may use and the GPUs on which the driver lists it."""
        if not isinstance(one.child, RankGroup):
            return {}
        nvml, found = self.telemetry.nvml, {}
        for number, pid in zip(one.child.numbers_here, one.child.pids, strict=True):
            with contextlib.suppress(OSError):  # its end is found by the next request
                gpus = ProcessMonitor(pid).gpus(nvml) if nvml else None
                found[number] = {"processors": tuple(sorted(os.sched_getaffinity(pid))), "gpus": gpus}
        return found

    def _probe_flush(self) -> None:
        """See whether a flush empties the cache in the implementations' own processes."""
        for one in self._active:
            self.tell("verification: probe the flush", one)
            flush = one.ask("probe_flush", answers.flush, timeout=self.setup.options.timeout_s)
            one.recorder.note(flush=flush)
            warm = warm_after_flush(flush) if flush is not None else None
            if warm:
                one.find(Sighting(warm.issue, warm.message, warm.evidence))

    # --- CUPTI

    def _audit(self) -> None:
        """Have CUPTI look at a few calls of each, and compare the clocks."""
        self.tell("verification: start CUPTI", None)
        for one in self._active:
            one.post("start_audit")
        audited = [one for one in self._active if self._audit_one(one)]
        if self.setup.guards("clocks_agree"):
            for one in audited:
                audit = one.observed.audit
                assert audit is not None
                if one.active:
                    vouches = None if self.setup.source_of(one.declared) else partial(self._slowed_by_profiler, one)
                    sides, clocks = (self.implementations[0].observed, one.observed), self.sampler.taker.method.clocks
                    seen = clock_agreement.compare(*sides, clocks, audit, vouches)
                    if seen:
                        one.find(seen)

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
        return clock_agreement.slowed(one.observed, self.sampler.extra.run_profiled(one))

    # --- energy

    def _measure_energy(self) -> None:
        for one in self._active:
            if one.declared.role == "control":
                continue
            self.tell("verification: measure energy", one)
            try:
                found = energy.measure(partial(self._steady, one), self.telemetry, _ENERGY_PLAN)
            except ChildError:
                continue  # the sampler has taken it out
            if isinstance(found, Energy):
                one.recorder.note(energy=found)
            else:
                one.recorder.note(no_energy=found.reason)

    def _steady(self, one: Participant, seconds: float) -> tuple[int, float]:
        """Make calls without a pause for so long; how many, and how long they took."""
        each = [run.bracket_s / run.calls for run in one.observed.steady] or one.observed.samples.bracket_s
        calls = max(1, math.ceil(seconds / statistics.median(each)))
        taken = self.sampler.taker.bracket_steady(one, calls)
        if taken is None:
            raise ChildError("exited", "ended")
        return calls, taken
