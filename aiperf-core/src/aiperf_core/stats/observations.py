"""Observations of one implementation: its samples, and its state in the run."""

from typing import Any

import numpy as np
from attrs import define, field, frozen

from aiperf_core.described import DescribedImplementation
from aiperf_core.measurements import Audit, Ceilings, Energy, Flush, Memory, Rank, Reading, Samples, Steady
from aiperf_core.results.models import DISBELIEVED, Confined, Finding, Row, TargetResult, Verdict
from aiperf_core.stats.intervals import Blocks
from aiperf_core.validity.policy import Policy


@frozen
class Answer:
    """The course of one sample, from its request to its answer, in seconds.

    held_s: the time on the sample's clock, by the supervisor.
    begun_s: from the request to the reported start of the clock; None if threads of other processes may still have been
        busy.
    answered_s: from the request to the answer, or to the start of its delivery.
    replied_s: of untrusted code, from the request until the whole output was there.
    ahead_s: of untrusted code, the processor time of the process from the request to the reported start of the clock.
    """

    held_s: float
    begun_s: float | None
    answered_s: float
    replied_s: float | None = None
    ahead_s: float | None = None

    @property
    def beside_s(self) -> float:
        """The time beside the time on the clock."""
        return self.answered_s - self.held_s


@define(eq=False)
class Observations:
    """Observations of an implementation that takes part in a run, or the reason why it does not any more.

    runs: the name of the code in the benchmark, which differs from the row's own name for a control.
    beside: figures of the samples other than times of calls, by name.
    latencies_s: of an implementation that serves requests, those of all samples' last calls.
    calls: calls in a sample, 0 before that is known.
    clock_cost_s, clock_step_s: what a clock adds to a sample, and its step, by the clock's name.
    answered: how each sample's answer came.
    stopped_s: the processor time that the process used before a sample, while it was stopped.
    looks: how the answers to uncounted samples came when it was resampled: the baseline's, and its own.
    bracket_looks: of the same samples, the times of a call by the worker's clock and by the bracket.
    ranks, rank_places, rank_audits, rank_readings: of a workload of several ranks, what each did, on which machine,
        what CUPTI saw of it, and the states of the devices of those but the first.
    """

    declared: DescribedImplementation
    runs: str
    policy: Policy = field(factory=Policy)
    ended: Verdict | None = None
    reason: str | None = None
    findings: list[Finding] = field(factory=list)
    samples: Samples = field(factory=Samples)
    isolated_samples_s: list[float] = field(factory=list)
    warmup_s: list[float] = field(factory=list)
    beside: dict[str, list[float]] = field(factory=dict)
    latencies_s: list[float] = field(factory=list)
    prepare_s: float | None = None
    memory: Memory | None = None
    judged: int = 0
    worst: float | None = 0.0
    quality: float | None = None
    audit: Audit | None = None
    readings: list[Reading] = field(factory=list)
    energy: Energy | None = None
    no_energy: str | None = None
    flush: Flush | None = None
    calls: int = 0
    clock_cost_s: dict[str, float] = field(factory=dict)
    clock_step_s: dict[str, float] = field(factory=dict)
    answered: list[Answer] = field(factory=list)
    stopped_s: list[float] = field(factory=list)
    looks: tuple[list[Answer], list[Answer]] | None = None
    bracket_looks: tuple[list[tuple[float, float]], list[tuple[float, float]]] | None = None
    not_observed: dict[str, str] = field(factory=dict)
    steady: list[Steady] = field(factory=list)
    ranks: list[Rank] = field(factory=list)
    rank_places: list[str] = field(factory=list)
    rank_audits: list[Audit] = field(factory=list)
    rank_readings: dict[int, list[Reading]] = field(factory=dict)
    log: list[str] = field(factory=list)
    confined: Confined | None = None

    @property
    def name(self) -> str:
        """The implementation's name."""
        return self.declared.name

    @property
    def active(self) -> bool:
        """Whether it is still being measured."""
        return self.ended is None

    @property
    def untrusted(self) -> bool:
        """Whether it is measured as untrusted code: other processes are stopped meanwhile, so `begun_s` is known."""
        return any(answer.begun_s is not None for answer in self.answered)

    def figures(self) -> dict[str, float]:
        """Medians of the figures beside times, and percentiles of the latencies of all requests."""
        middle = {name: float(np.median(values)) for name, values in self.beside.items()}
        if self.latencies_s:
            for percent in (50, 90, 99):
                middle[f"latency_p{percent}_s"] = float(np.percentile(self.latencies_s, percent, method="higher"))
        return middle

    def blocks(self, clock: str, length: int) -> Blocks:
        """The times of a call by one clock, each with its pass; `length` is the number of implementations in a pass."""
        kept = [index for index, time in enumerate(self._column(clock)) if time is not None]
        return Blocks.of(
            self.times(clock),
            [self.samples.block[index] // length for index in kept],
            [self.samples.round[index] for index in kept],
            self.clock_step_s.get(clock, 0.0) / max(self.calls, 1),
        )

    def times(self, clock: str) -> list[float]:
        """The times of a call by one clock, in seconds, without the clock's own cost."""
        pairs = zip(self._column(clock), self.samples.calls, strict=True)
        return [self.per_call(clock, time, calls) for time, calls in pairs if time is not None]

    def per_call(self, clock: str, sample_s: float, calls: int) -> float:
        """The time of one call in a sample of several."""
        return (sample_s - self.clock_cost_s.get(clock, 0.0)) / calls

    def median(self, clock: str) -> float | None:
        """The median time of a call so far by a clock, in seconds."""
        times = self.times(clock)
        return float(np.median(times)) if times else None

    def _column(self, clock: str) -> list[float | None]:
        return self.samples.device_s if clock == "device" else self.samples.wall_s

    def find(self, issue: str, message: str, evidence: dict[str, Any], verdict: Verdict = Verdict.INVALID) -> bool:
        """Record an issue that a guard saw. Return whether the policy takes the implementation out for it."""
        effect = self.policy.effect(issue)
        known = any((one.issue, one.message) == (issue, message) for one in self.findings)
        if effect == "invalid":
            self.stop(verdict, message, Finding(issue, effect, message, evidence))
        elif effect == "warning" and not known:
            self.findings.append(Finding(issue, effect, message, evidence))
        return effect == "invalid"

    def stop(self, verdict: Verdict, reason: str, finding: Finding | None = None) -> None:
        """Take it out of the comparison. Its samples stay."""
        self.ended, self.reason = verdict, reason
        if finding is not None:
            self.findings.append(finding)


def of_row(result: TargetResult, row: Row, ceilings: Ceilings | None) -> Observations:
    """The observations that a row was made of, as far as a bundle records them. `ceilings` are of the result's device.

    A row that is not believed keeps its verdict and reason, which its samples cannot prove.
    """
    declared = DescribedImplementation(
        name=row.name,
        role=row.role,
        device=row.device,
        where="",
        why=row.why or "",
        kind=row.kind,
        requires=list(row.requires),
        builds_on=row.builds_on,
        mechanisms=list(row.mechanisms),
        lossy={"metric": row.quality.metric, "budget": row.quality.budget} if row.quality else None,
    )
    ended = row.verdict if row.verdict in DISBELIEVED else None
    step = ceilings.event_step_s if ceilings else None
    return Observations(
        declared,
        row.name,
        ended=ended,
        reason=row.reason if ended else None,
        findings=list(row.findings),
        samples=row.samples,
        memory=row.memory,
        isolated_samples_s=row.isolated_samples_s,
        calls=row.samples.calls[-1] if row.samples.calls else 0,
        clock_cost_s={} if result.clock_overhead_s is None else {result.clock: result.clock_overhead_s},
        clock_step_s={"device": step} if step else {},
    )


def blocks(result: TargetResult, row: Row, ceilings: Ceilings | None) -> Blocks:
    """A row's times of a call by the target's clock, with their passes and rounds."""
    return of_row(result, row, ceilings).blocks(result.clock, len(result.rows))
