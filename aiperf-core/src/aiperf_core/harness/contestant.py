"""One implementation during a run: its process, its samples, and how it fared so far."""

from typing import Any

import numpy as np
from attrs import define, field

from aiperf_core.harness.described import DescribedImplementation
from aiperf_core.harness.processes import Child, ChildError
from aiperf_core.harness.statistics import Blocks
from aiperf_core.results.models import Finding, Memory, Samples, Verdict

# What each way to fail means for the row.
_VERDICTS = {"skip": Verdict.SKIPPED, "contract": Verdict.INVALID}


@define(eq=False)
class Contestant:
    """An implementation that takes part, or the reason why it does not (any more)."""

    declared: DescribedImplementation
    child: Child | None = None
    ended: Verdict | None = None
    reason: str | None = None
    findings: list[Finding] = field(factory=list)
    samples: Samples = field(factory=Samples)
    warmup_s: list[float] = field(factory=list)
    block_length: int = 1
    prepare_s: float | None = None
    memory: Memory | None = None
    judged: int = 0
    since_judged: int = 0
    worst: float | None = 0.0
    quality: float | None = None
    log: list[str] = field(factory=list)

    @property
    def name(self) -> str:
        """The implementation's name."""
        return self.declared.name

    @property
    def active(self) -> bool:
        """Whether it is still being measured."""
        return self.ended is None

    def record(self, block: int, step: int, sample: dict[str, Any], *, judged: bool) -> None:
        """Keep a timed sample."""
        self.samples.block.append(block)
        self.samples.step.append(step)
        self.samples.judged.append(judged)
        self.samples.device_s.append(sample["device_s"])
        self.samples.wall_s.append(sample["wall_s"])
        self.samples.cpu_s.append(sample["cpu_s"])
        self.samples.bracket_s.append(sample["bracket_s"])
        self.samples.hidden.append(sample["hidden"])

    def blocks(self, clock: str, length: int) -> Blocks:
        """The times by one clock, with the pass that each belongs to; `length` is the number of contestants a pass."""
        column = self.samples.device_s if clock == "device" else self.samples.wall_s
        kept = [(time, block // length) for time, block in zip(column, self.samples.block, strict=True) if time]
        return Blocks.of([time for time, _ in kept], [number for _, number in kept])

    def median(self, clock: str) -> float | None:
        """The median time so far by a clock, in seconds."""
        column = self.samples.device_s if clock == "device" else self.samples.wall_s
        times = [time for time in column if time is not None]
        return float(np.median(times)) if times else None

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
        verdict = _VERDICTS.get(error.kind, Verdict.FAILED)
        finding = None
        if verdict is Verdict.INVALID:
            finding = Finding("output.wrong_form", "invalid", str(error))
        self.stop(verdict, str(error), finding)
        if verdict is Verdict.SKIPPED:
            self.log = []
