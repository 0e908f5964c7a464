"""One implementation during a run: its process, its samples, and how it fared so far."""

from typing import Any

import numpy as np
from attrs import define, field, frozen

from aiperf_core.devices.telemetry import Reading
from aiperf_core.executors.executor import Crew
from aiperf_core.harness.described import DescribedImplementation
from aiperf_core.harness.processes import ChildError
from aiperf_core.harness.statistics import Blocks
from aiperf_core.results.models import Audit, Confined, Energy, Finding, Flush, Memory, Samples, Steady, Verdict
from aiperf_core.validity.checks.global_state import changes, changes_midway, is_silent
from aiperf_core.validity.evidence import Census, Rank
from aiperf_core.validity.policy import Policy

# What the kernel says to code that is held back, and what is then added.
_REFUSALS = ("Permission denied", "Operation not permitted", "Temporary failure in name resolution", "SemLock")
_HELD = (
    " (a candidate may read code and libraries and write to its working folder; it has no network, no /dev/shm, and may not change "
    "its priority or processors)"
)


@frozen
class Answer:
    """How the answer to a sample's request came, in seconds.

    held_s: how long the sample's clock was held to run. begun_s: from the request until the clock was said to start; None
    where the threads of other processes may still have been at work then, so that it tells nothing.
    answered_s: from the request until the answer was there, or began to be delivered. Of code that nobody trusts,
    replied_s: from the request until all of the output was there; ahead_s: the processor time that the process used from the
    request until the clock was said to start.
    """

    held_s: float
    begun_s: float | None
    answered_s: float
    replied_s: float | None = None
    ahead_s: float | None = None

    @property
    def beside_s(self) -> float:
        """What it took beside the time on the clock."""
        return self.answered_s - self.held_s


@define(eq=False)
class Contestant:
    """An implementation that takes part, or the reason why it does not (any more).

    `runs` is the name of the code in the benchmark; it differs from the row's own name for a control. `calls` is how many
    a sample has, 0 before that is known; `clock_cost_s` what a clock adds to a sample, by its name, and `clock_step_s` its step;
    `recorded` counts the samples that it was given to keep, and `beside` has figures of the samples that are no times of
    calls, by name; `deferred` says whether its benchmark is; of one that serves requests, `latencies_s` has those of all
    samples' last calls, and `deadline_s` is what they are held against; `answered` has how each sample's answer came, and
    `stopped_s` the processor time that its process used before, while it was stopped; `looks` has how the answers to samples
    came that are not counted, the baseline's and its own, where it was looked at again (`bracket_looks` has a call's time by
    the worker's clock and by the bracket); `rank_times_s` the times of each rank by its clock and of processors, sample by
    sample, `rank_audits` what CUPTI saw of each, and
    `rank_readings` the states of the devices of those but the first; `delivered` counts samples that came with their output, and
    `midway` those of them that told what the harness's code was meanwhile. `state_before` and `state_after` are what its process told
    of itself in the first round in which it changed something, or else in the last one; `state_begun` in this one.
    """

    declared: DescribedImplementation
    runs: str
    policy: Policy = field(factory=Policy)
    child: Crew | None = None
    ended: Verdict | None = None
    reason: str | None = None
    findings: list[Finding] = field(factory=list)
    samples: Samples = field(factory=Samples)
    isolated_samples_s: list[float] = field(factory=list)
    warmup_s: list[float] = field(factory=list)
    beside: dict[str, list[float]] = field(factory=dict)
    deferred: bool = False
    deadline_s: float | None = None
    latencies_s: list[float] = field(factory=list)
    block_length: int = 1
    prepare_s: float | None = None
    memory: Memory | None = None
    judged: int = 0
    since_judged: int = 0
    worst: float | None = 0.0
    quality: float | None = None
    audit: Audit | None = None
    readings: list[Reading] = field(factory=list)
    energy: Energy | None = None
    no_energy: str | None = None
    flush: Flush | None = None
    calls: int = 0
    recorded: int = 0
    clock_cost_s: dict[str, float] = field(factory=dict)
    clock_step_s: dict[str, float] = field(factory=dict)
    answered: list[Answer] = field(factory=list)
    stopped_s: list[float] = field(factory=list)
    looks: tuple[list[Answer], list[Answer]] | None = None
    bracket_looks: tuple[list[tuple[float, float]], list[tuple[float, float]]] | None = None
    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    state_begun: dict[str, Any] | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    census: list[Census] = field(factory=list)
    not_observed: dict[str, str] = field(factory=dict)
    steady: list[Steady] = field(factory=list)
    rank_times_s: list[list[tuple[float, float]]] = field(factory=list)
    ranks: list[Rank] = field(factory=list)
    rank_audits: list[Audit] = field(factory=list)
    rank_readings: dict[int, list[Reading]] = field(factory=dict)
    log: list[str] = field(factory=list)
    confined: Confined | None = None
    delivered: int = 0
    midway: int = 0

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
        """Whether its run trusts nobody: others are stopped then, and how long a process takes to begin tells something."""
        return any(answer.begun_s is not None for answer in self.answered)

    def begin(self, state: dict[str, Any]) -> None:
        """Keep what a new process tells of itself. What an earlier one told says nothing of it, but may say what that did."""
        self.state_begun = state
        if not self._changed:
            self.state_before, self.state_after = state, None

    def end(self, state: dict[str, Any] | None) -> None:
        """Keep what the process tells of itself after its last call; None where it told nothing."""
        if not self._changed:
            self.state_after = state

    def look_midway(self, told: dict[str, Any] | None) -> bool:
        """Look at what its process told of the harness's code while it was timed. Return whether it takes part no longer."""
        self.delivered += 1
        self.midway += told is not None
        changed = changes_midway(self.state_begun or {}, told) if told is not None else []
        return any(self.find(one.issue, one.message, one.evidence) for one in changed)

    def find_silence(self) -> None:
        """Find that its process told so rarely what the harness's code was that chance cannot be why."""
        if self.active and self.delivered and is_silent(self.delivered, self.midway):
            message = f"only {self.midway} of {self.delivered} samples told what the harness's code was meanwhile, which is left to chance"
            self.find("tamper.code_objects", message, {"samples": self.delivered, "looks": self.midway})

    @property
    def _changed(self) -> bool:
        """Whether a process of this run changed something."""
        before, after = self.state_before, self.state_after
        return before is not None and after is not None and bool(changes(before, after))

    def record(self, place: tuple[int, int, int], sample: dict[str, Any], *, judged: bool) -> None:
        """Keep a timed sample. `place` is its round, block and step."""
        self.recorded += 1
        round_number, block, step = place
        self.answered.append(self.answer_of(sample))
        if sample["stopped_s"] is not None:
            self.stopped_s.append(sample["stopped_s"])
        if self.child is not None and self.child.last_s:
            self.rank_times_s.append(self.child.last_s)
        self.samples.round.append(round_number)
        self.samples.block.append(block)
        self.samples.step.append(step)
        self.samples.judged.append(judged)
        self.samples.device_s.append(sample["device_s"])
        self.samples.wall_s.append(sample["wall_s"])
        self.samples.cpu_s.append(sample["cpu_s"])
        self.samples.bracket_s.append(sample["bracket_s"])
        self.samples.hidden.append(sample["hidden"])
        self.samples.calls.append(self.calls)
        self.samples.voluntary_switches.append(sample["voluntary_switches"])
        self.samples.involuntary_switches.append(sample["involuntary_switches"])
        self.samples.throttled.append(False)
        for name, value in sample.get("beside", {}).items():
            if name != "until_done_s" or self.deferred:
                self.beside.setdefault(name, []).append(value)
        if self.deadline_s is not None and sample["wall_s"]:
            latencies_s = sample["latencies_s"]
            self.latencies_s += latencies_s
            in_time = sum(one <= self.deadline_s for one in latencies_s)
            self.beside.setdefault("goodput_per_s", []).append(in_time * self.calls / sample["wall_s"])

    def figures(self) -> dict[str, float]:
        """What the samples have besides their times: medians, and the latencies of all requests by how many are no slower."""
        middle = {name: float(np.median(values)) for name, values in self.beside.items()}
        if self.latencies_s:
            for percent in (50, 90, 99):
                middle[f"latency_p{percent}_s"] = float(np.percentile(self.latencies_s, percent, method="higher"))
        return middle

    def answer_of(self, sample: dict[str, Any]) -> Answer:
        """How the answer to a sample came.

        A caller's clock is taken at its word: what it leaves out shows as time beside the call. The GPU's leaves out
        launches, which the bracket counts; a supervisor that reads both notices late sees next to nothing between them, and
        then the clock's figure is the nearer one.
        """
        held = sample["wall_s"]
        if self.deferred:  # what such a call goes on with is declared, and has a figure of its own
            held = sample["beside"].get("until_done_s", held)
        if held is None:
            held = max(sample["bracket_s"], sample["device_s"])
        return Answer(held, sample["begun_s"], sample["answered_s"], sample["replied_s"], sample["ahead_s"])

    def mark_throttled(self) -> None:
        """Mark the samples of the last block as taken while the clocks were held down."""
        for index in range(len(self.samples.block) - 1, -1, -1):
            if self.samples.block[index] != self.samples.block[-1]:
                return
            self.samples.throttled[index] = True

    def blocks(self, clock: str, length: int) -> Blocks:
        """The times of a call by one clock, each with its pass; `length` is the number of contestants a pass."""
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
        """Record that a guard saw an issue; what that does is the policy's to say. Return whether it takes part no longer."""
        effect = self.policy.effect(issue)
        known = any((one.issue, one.message) == (issue, message) for one in self.findings)
        if effect == "invalid":
            self.stop(verdict, message, Finding(issue, effect, message, evidence))
        elif effect == "warning" and not known:
            self.findings.append(Finding(issue, effect, message, evidence))
        return effect == "invalid"

    def stop(self, verdict: Verdict, reason: str, finding: Finding | None = None) -> None:
        """Take it out of the run. Its samples stay, its process ends."""
        self.ended, self.reason = verdict, reason
        if finding is not None:
            self.findings.append(finding)
        if self.child is not None:
            self.log = self.child.last_lines()
            self.child.kill()

    def fail(self, error: ChildError) -> None:
        """Take it out of the run because its process could not go on."""
        if error.kind == "contract" and self.find("output.wrong_form", str(error), {}):
            return
        refused = self.confined is not None and error.kind == "raised" and any(one in str(error) for one in _REFUSALS)
        self.stop(Verdict.SKIPPED if error.kind == "skip" else Verdict.FAILED, f"{error}{_HELD if refused else ''}")
        if error.kind == "skip":
            self.log = []
