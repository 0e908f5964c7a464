"""One implementation during a run: its process, its samples, and how it fared so far."""

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field

from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.isolation.mapped_code import Mapped
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.measurements import Census
from aiperf_core.results.models import Finding, Verdict
from aiperf_core.stats.observations import Answer, Observations
from aiperf_core.validity.checks.global_state import changes, integrity_changes, is_silent

# What the kernel says to code that is held back, and what is then added.
_REFUSALS = ("Permission denied", "Operation not permitted", "Temporary failure in name resolution", "SemLock")
_HELD = (
    " (a candidate may read code and libraries and write to its working folder; it has no network, no /dev/shm, and "
    "may not change its priority or processors)"
)

# Columns of the samples that are kept as the worker and the supervisor's clock told them.
_AS_TOLD = ("device_s", "wall_s", "cpu_s", "bracket_s", "hidden", "voluntary_switches", "involuntary_switches")


def _as_told(answer: Any) -> Any:
    return answer


@define(eq=False)
class ImplementationRun(Observations):
    """An implementation that takes part: its process, and what is observed of it.

    child: its worker's process, or its ranks; None before they are started.
    deferred: whether its benchmark finishes its work after the call.
    deadline_s: what the latencies of a served benchmark are held against.
    block_length: samples in a block.
    since_judged: samples since the last one that was judged.
    repeated_s, fresh_s: times of calls on the values of the call before, and on new values.
    aliases: paths of its outputs that lay in the memory of inputs; None before an output was judged.
    state_begun: the snapshot that its present process made at its start.
    state_before, state_after: the snapshots of the first round in which it changed something, or else of the last one.
    declared_to_worker: what the benchmark declares in its process; None for a candidate.
    mapped: compiled code that its processes have mapped.
    census: its process between two calls.
    rank_times_s: for each sample, the times of each rank by its clock and of processors.
    delivered: samples that came with their output. integrity_probes: those of them that came with an integrity probe.
    """

    child: WorkerHandle | None = None
    deferred: bool = False
    deadline_s: float | None = None
    block_length: int = 1
    since_judged: int = 0
    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    state_begun: dict[str, Any] | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    declared_to_worker: dict[str, Any] | None = None
    mapped: Mapped | None = None
    census: list[Census] = field(factory=list)
    rank_times_s: list[list[tuple[float, float]]] = field(factory=list)
    delivered: int = 0
    integrity_probes: int = 0

    # --- its process

    @property
    def worker(self) -> WorkerHandle:
        """Its processes, which were started."""
        assert self.child is not None
        return self.child

    @property
    def running(self) -> bool:
        """Whether its processes were started and have not ended."""
        return self.child is not None and not self.child.ended

    def ask(self, do: str, read: Callable[[Any], Any] = _as_told, *, timeout: float, **arguments: Any) -> Any:
        """Make a request and read the answer; None where the process failed, which takes it out of the run."""
        return self.guarded(partial(self.worker.ask, do, timeout=timeout, **arguments), read)

    def post(self, do: str, **arguments: Any) -> None:
        """Send a request whose answer is collected later."""
        self.guarded(partial(self.worker.post, do, **arguments))

    def collect(self, read: Callable[[Any], Any] = _as_told, *, timeout: float) -> Any:
        """Read the answer to the request that was posted; None where the process failed."""
        return self.guarded(partial(self.worker.collect, timeout=timeout), read)

    def guarded(self, call: Callable[[], Any], read: Callable[[Any], Any] = _as_told) -> Any:
        """Make a call to the process and read its result; a failure, or an unreadable answer, ends its part."""
        try:
            return read(call())
        except (ChildError, ValueError) as error:
            self.fail(error)
            return None

    def end_process(self) -> None:
        """Keep the last lines of its log and end its processes."""
        if self.child is not None:
            self.log = self.child.last_lines()
            self.child.kill()

    # --- what its process says of itself

    def begin(self, state: dict[str, Any]) -> None:
        """Keep the first snapshot of a new process. Snapshots of an earlier process that changed something are kept."""
        self.state_begun = state
        if not self._changed:
            self.state_before, self.state_after = state, None

    def end(self, state: dict[str, Any] | None) -> None:
        """Keep the snapshot after the last call of the process; None where it made none."""
        if not self._changed:
            self.state_after = state

    def check_integrity_probe(self, probe: dict[str, Any] | None) -> bool:
        """Check the harness's code in its process during a sample. Return whether it was taken out of the run."""
        self.delivered += 1
        self.integrity_probes += probe is not None
        changed = integrity_changes(self.state_begun or {}, probe) if probe is not None else []
        return any(self.find(one.issue, one.message, one.evidence) for one in changed)

    def find_silence(self) -> None:
        """Find that fewer samples came with an integrity probe than chance allows."""
        if self.active and self.delivered and is_silent(self.delivered, self.integrity_probes):
            probes = f"{self.integrity_probes} of {self.delivered}"
            message = f"only {probes} samples had an integrity probe, too few to be chance"
            self.find("tamper.code_objects", message, {"samples": self.delivered, "probes": self.integrity_probes})

    @property
    def _changed(self) -> bool:
        """Whether a process of this run changed something."""
        before, after = self.state_before, self.state_after
        return before is not None and after is not None and bool(changes(before, after))

    # --- samples

    def record(self, place: tuple[int, int, int], sample: dict[str, Any], *, judged: bool) -> None:
        """Keep a timed sample, whatever it took. `place` is its round, block and step."""
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
        self.samples.calls.append(self.calls)
        for name in _AS_TOLD:
            getattr(self.samples, name).append(sample[name])
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

        The caller's clock is believed here: what it leaves out shows as time beside the call. The GPU's clock leaves
        out launches, which the bracket counts. The bracket is too short where the supervisor reads both notices late;
        then the clock's figure is closer.
        """
        held = sample["wall_s"]
        if self.deferred:  # its work after the call is declared, and has its own figure
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

    # --- leaving the run

    def stop(self, verdict: Verdict, reason: str, finding: Finding | None = None) -> None:
        """Take it out of the run. Its samples stay, its process ends."""
        Observations.stop(self, verdict, reason, finding)
        self.end_process()

    def fail(self, error: Exception, said: str = "sent an answer that cannot be read") -> None:
        """Take it out of the run because its process failed, or `said` something that is no answer."""
        if not isinstance(error, ChildError):
            error = ChildError("protocol", f"{said}: {error}")
        if error.kind == "contract" and self.find("output.wrong_form", str(error), {}):
            return
        refused = self.confined is not None and error.kind == "raised" and any(one in str(error) for one in _REFUSALS)
        self.stop(Verdict.SKIPPED if error.kind == "skip" else Verdict.FAILED, f"{error}{_HELD if refused else ''}")
        if error.kind == "skip":
            self.log = []
