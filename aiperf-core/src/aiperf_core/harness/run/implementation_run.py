"""One implementation during a run: its process, its samples, and how it fared so far."""

from typing import Any

from attrs import define, field

from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.measurements import Census
from aiperf_core.results.models import Finding, Verdict
from aiperf_core.stats.observations import Answer, Observations
from aiperf_core.validity.checks.global_state import changes, changes_midway, is_silent

# What the kernel says to code that is held back, and what is then added.
_REFUSALS = ("Permission denied", "Operation not permitted", "Temporary failure in name resolution", "SemLock")
_HELD = (
    " (a candidate may read code and libraries and write to its working folder; it has no network, no /dev/shm, and may not change "
    "its priority or processors)"
)


@define(eq=False)
class ImplementationRun(Observations):
    """An implementation that takes part: its process, and what is observed of it.

    recorded: samples that it was given to keep.
    deferred, deadline_s: whether its benchmark is deferred, and what the latencies of a served one are held against.
    rank_times_s: the times of each rank by its clock and of processors, sample by sample.
    state_before, state_after: what its process told of itself in the first round in which it changed something, or else in the
        last one; state_begun: in this one.
    delivered, midway: samples that came with their output, and those of them that told what the harness's code was meanwhile.
    """

    child: WorkerHandle | None = None
    deferred: bool = False
    deadline_s: float | None = None
    block_length: int = 1
    since_judged: int = 0
    recorded: int = 0
    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    state_begun: dict[str, Any] | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    census: list[Census] = field(factory=list)
    rank_times_s: list[list[tuple[float, float]]] = field(factory=list)
    delivered: int = 0
    midway: int = 0

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

    def stop(self, verdict: Verdict, reason: str, finding: Finding | None = None) -> None:
        """Take it out of the run. Its samples stay, its process ends."""
        Observations.stop(self, verdict, reason, finding)
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
