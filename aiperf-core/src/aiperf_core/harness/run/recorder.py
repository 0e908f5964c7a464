"""Observations of one implementation, collected while it is measured."""

from typing import Any

import numpy as np
from attrs import define, evolve, field

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.isolation.mapped_code import Mapped
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.measurements import Audit, Census, Faults, Rank, Reading
from aiperf_core.results.models import Judgement, Observations, Quality, RankTime
from aiperf_core.stats.conditions import summary
from aiperf_core.validity.checks.global_state import changes
from aiperf_core.validity.checks.repeat_against_fresh import gains

# Columns of the samples that are kept as the worker and the supervisor's clock gave them.
_AS_MEASURED = (
    "own_s",
    "device_s",
    "wall_s",
    "cpu_s",
    "bracket_s",
    "hidden",
    "voluntary_switches",
    "involuntary_switches",
    "witness_s",
    "simulated_s",
)
# Columns of the supervisor's own clock, in whole nanoseconds, which take less space in a bundle.
_IN_NS = ("begun_s", "answered_s", "replied_s", "stopped_s")


@define
class RankNotes:
    """Notes about several ranks.

    did: what each did in a call.
    places: the machine of each.
    audits: what CUPTI saw of each.
    readings: the states of the devices of those but the first.
    times_s: for each sample, the times of each rank by its clock and of processors.
    """

    did: list[Rank] = field(factory=list)
    places: list[str] = field(factory=list)
    audits: list[Audit] = field(factory=list)
    readings: dict[int, list[Reading]] = field(factory=dict)
    times_s: list[list[tuple[float, float]]] = field(factory=list)

    def records(self) -> list[RankTime]:
        """Each rank, with its device, and its machine where there are several."""
        devices = [f"{rank.device} of {place}" for rank, place in zip(self.did, self.places, strict=False)]
        audits = dict(enumerate(self.audits))
        return [
            RankTime(
                rank.rank,
                device,
                rank.work_s,
                rank.collectives,
                rank.wire_bytes,
                audit=audits.get(rank.rank),
                conditions=summary(self.readings[rank.rank]) if rank.rank in self.readings else None,
            )
            for rank, device in zip(self.did, devices or [rank.device for rank in self.did], strict=True)
        ]


@define(eq=False)
class Recorder:
    """Collects the observations of an implementation.

    facts: what is known so far; its lists grow.
    lossy: `metric` and `budget` of a variant that changes the answer by design.
    deferred: whether its benchmark finishes its work after the call.
    deadline_s: what the latencies of a served benchmark are held against.
    beside: figures of the samples other than times of calls, by name.
    latencies_s: of an implementation that serves requests, those of all samples' last calls.
    readings: the states of the machine after its blocks.
    loads: the load of the machine's processors over each round of samples.
    judged, worst, quality: outputs that were compared with the reference, and how they agreed.
    """

    facts: Observations
    lossy: dict[str, Any] | None = None
    deferred: bool = False
    deadline_s: float | None = None
    beside: dict[str, list[float]] = field(factory=dict)
    latencies_s: list[float] = field(factory=list)
    readings: list[Reading] = field(factory=list)
    loads: list[Reading] = field(factory=list)
    ranks: RankNotes = field(factory=RankNotes)
    judged: int = 0
    worst: float | None = 0.0
    quality: float | None = None

    @classmethod
    def of(cls, declared: DescribedImplementation) -> "Recorder":
        """A recorder without observations."""
        facts = Observations(
            declared.name,
            declared.role,
            declared.device,
            kind=declared.kind,
            why=declared.why or None,
            builds_on=declared.builds_on,
            mechanisms=list(declared.mechanisms),
            requires=list(declared.requires),
            predict=declared.predict or None,
            teaches=declared.teaches or None,
        )
        return cls(facts, declared.lossy)

    def note(self, **facts: Any) -> None:
        """Keep facts: fields of `Observations`, in place of what was known of them."""
        self.facts = evolve(self.facts, **facts)

    def record(self, place: tuple[int, int, int], sample: Sample, *, calls: int, judged: bool) -> None:
        """Keep a timed sample, whatever it took. `place` is its round, block and step."""
        samples, until_done_s = self.facts.samples, sample.until_done_s if self.deferred else None
        samples.round.append(place[0])
        samples.block.append(place[1])
        samples.step.append(place[2])
        samples.judged.append(judged)
        samples.calls.append(calls)
        samples.throttled.append(False)
        samples.done_s.append(until_done_s)
        for name in _AS_MEASURED:
            getattr(samples, name).append(getattr(sample, name))
        for name in _IN_NS:
            getattr(samples, name).append(_in_ns(getattr(sample, name)))
        for name, figure in (("minor_faults", sample.minor_faults), ("until_done_s", until_done_s)):
            if figure is not None:
                self.beside.setdefault(name, []).append(figure)
        if self.deadline_s is not None and sample.wall_s:
            self.latencies_s += sample.latencies_s
            in_time = sum(seconds <= self.deadline_s for seconds in sample.latencies_s)
            self.beside.setdefault("goodput_per_s", []).append(in_time * calls / sample.wall_s)

    def mark_throttled(self) -> None:
        """Mark the samples of the last block as taken while the clocks were held down."""
        samples = self.facts.samples
        for index in range(len(samples.block) - 1, -1, -1):
            if samples.block[index] != samples.block[-1]:
                return
            samples.throttled[index] = True

    def verified(self, compared: dict[str, Any]) -> None:
        """Keep how an output agreed with the reference. Raises `KeyError` for an incomplete comparison."""
        self.judged += 1
        if compared["quality"] is not None:
            self.quality = max(self.quality or 0.0, compared["quality"])
        right = compared["error"] is None
        self.worst = max(self.worst or 0.0, compared["worst"]) if right else compared["worst"]

    def observations(self, tolerance: str) -> Observations:
        """All that was observed. `tolerance` is the one that outputs were compared with."""
        lossy = self.lossy if self.quality is not None else None
        return evolve(
            self.facts,
            beside=self._figures(),
            conditions=summary(self.readings, self.loads) if self.readings else None,
            judgement=Judgement(self.judged, tolerance, self.worst) if self.judged else None,
            quality=Quality(lossy["metric"], self.quality, lossy["budget"]) if lossy else None,
            ranks=self.ranks.records(),
        )

    def _figures(self) -> dict[str, float]:
        """Medians of the figures beside times, and percentiles of the latencies of all requests."""
        middle = {name: float(np.median(values)) for name, values in self.beside.items()}
        if self.latencies_s:
            for percent in (50, 90, 99):
                middle[f"latency_p{percent}_s"] = float(np.percentile(self.latencies_s, percent, method="higher"))
        return middle


def _in_ns(seconds: float | None) -> float | None:
    """A time in whole nanoseconds, in seconds; the steps of two clocks may make a time of nothing negative."""
    return None if seconds is None else max(0, round(seconds * 1e9)) / 1e9


@define(eq=False)
class ProcessEvidence:
    """Evidence of an implementation's processes, beside its samples.

    repeated_s, fresh_s: times of calls on repeated inputs, and on refreshed inputs.
    aliases: paths of its outputs that lay in the memory of inputs; None before an output was judged.
    state_before, state_after: the snapshots of the first round in which it changed something, or else of the last one.
    declared_to_worker: what the benchmark declares in its process; None for a candidate.
    mapped: compiled code that its processes have mapped.
    census: its process between two calls.
    faults: its page faults in each counted sample that an observer timed.
    """

    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    declared_to_worker: dict[str, Any] | None = None
    mapped: Mapped | None = None
    census: list[Census] = field(factory=list)
    faults: list[Faults] = field(factory=list)

    def begin(self, state: dict[str, Any]) -> None:
        """Keep the first snapshot of a new process. Snapshots of an earlier process that changed something are kept."""
        if not self._changed:
            self.state_before, self.state_after = state, None

    def end(self, state: dict[str, Any] | None) -> None:
        """Keep the snapshot after the last call of the process; None where it made none."""
        if not self._changed:
            self.state_after = state

    @property
    def gains_by_repeating(self) -> bool:
        """Tell whether calls on repeated inputs are faster, if warm caches do not explain it."""
        return gains(self.repeated_s, self.fresh_s)

    @property
    def _changed(self) -> bool:
        """Tell whether a process of this run changed something."""
        before, after = self.state_before, self.state_after
        return before is not None and after is not None and bool(changes(before, after))
