"""One implementation that takes part in a run: its process, the pace of its samples, and its recorder."""

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import Factory, define, evolve, field

from aiperf_core.described import DescribedImplementation
from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.isolation.mapped_code import mapped
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.recorder import ProcessEvidence, Recorder
from aiperf_core.results.models import Ending, Observations, Sighting, Verdict
from aiperf_core.stats.standing import effect_of
from aiperf_core.validity.policy import Policy

# What the kernel says to code that is held back, and what is then added.
_REFUSALS = ("Permission denied", "Operation not permitted", "Temporary failure in name resolution", "SemLock")
_HELD = (
    " (a candidate may read code and libraries and write to its working folder; it has no network, no /dev/shm, and "
    "may not change its priority or processors)"
)


def _as_told(answer: Any) -> Any:
    return answer


@define
class Pace:
    """How samples of an implementation are taken.

    calls: calls in a sample, 0 before that is known.
    block_length: samples in a block.
    wakes: whether a sample that is not counted precedes each block.
    disturbed: whether each sample of the warm-up, but for the first, lost a processor to other work.
    since_fresh: samples of the warm-up since the last one that took fresh pages, but for the first; None before it.
    whole_sample_s: the wall time of its last sample in the warm-up, with all that the harness does for a sample.
    since_judged: samples since the last one that was judged.
    """

    calls: int = 0
    block_length: int = 1
    wakes: bool = False
    disturbed: bool = True
    since_fresh: int | None = None
    whole_sample_s: float = 0.0
    since_judged: int = 0


@define(eq=False)
class Participant:
    """An implementation that takes part in a run.

    runs: the name of the code in the benchmark, which differs from the row's own name for a control.
    policy: decides which issues end its part.
    child: its worker's process, or its ranks; None before they are started.
    page: what its process shares with an observer, where one times it.
    memory: the number of the judge's memory that its process maps.
    active: whether it is still being measured.
    was_starved: whether its part ended because its observer had no processor; its process was looked at all the same.
    """

    declared: DescribedImplementation
    runs: str
    policy: Policy = field(factory=Policy)
    child: WorkerHandle | None = None
    page: ObservedPage | None = None
    memory: int = 0
    pace: Pace = field(factory=Pace)
    recorder: Recorder = field(default=Factory(lambda self: Recorder.of(self.declared), takes_self=True))
    process: ProcessEvidence = field(factory=ProcessEvidence)
    active: bool = True
    was_starved: bool = False
    _seen: list[bool] = field(factory=list, init=False)

    @property
    def name(self) -> str:
        """The implementation's name."""
        return self.declared.name

    @property
    def observed(self) -> Observations:
        """Observations so far."""
        return self.recorder.facts

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

    def ask_state(self) -> None:
        """Keep the code that the kernel shows in its processes, and ask for their own snapshot."""
        self.process.mapped = mapped(self.worker.pids) or self.process.mapped
        self.post("state")

    def keep_state(self) -> None:
        """Keep the snapshot that it was asked for."""
        if self.active:
            self.process.end(self.collect(answers.state, timeout=10.0))

    def end_process(self) -> None:
        """Keep the last lines of its log and end its processes."""
        if self.child is not None:
            self.recorder.note(log=self.child.last_lines())
            self.child.kill()
        if self.page is not None:
            self.page.close()
            self.page = None

    # --- samples

    def record(self, place: tuple[int, int, int], sample: answers.Sample, *, judged: bool) -> None:
        """Keep a timed sample. `place` is its round, block and step."""
        if self.child is not None and self.child.last_s:
            self.recorder.ranks.times_s.append(self.child.last_s)
        if sample.faults is not None:
            self.process.faults.append(sample.faults)
        self.recorder.record(place, sample, calls=self.pace.calls, judged=judged)

    def is_starved(self, sample: bool, least: int) -> bool:
        """Keep whether the observer of a sample was starved. Whether it was in most samples, of at least `least`."""
        self._seen.append(sample)
        return len(self._seen) >= least and 2 * sum(self._seen) > len(self._seen)

    # --- leaving the run

    def find(self, seen: Sighting) -> bool:
        """Keep an issue that was seen. Return whether the policy ends its part in the run for it."""
        seen = self.of_policy(seen)
        known = {(one.issue, one.message) for one in self.observed.seen}
        if (seen.issue, seen.message) not in known:
            self.observed.seen.append(seen)
        ends = effect_of(seen, self.policy) == "invalid"
        if ends:
            self._leave()
        return ends

    def of_policy(self, seen: Sighting) -> Sighting:
        """An issue with its effects, where the registry of the core does not know it."""
        return seen if seen.effects else evolve(seen, effects=self.policy.effects_of_plugin(seen.issue))

    def stop(self, verdict: Verdict, reason: str) -> None:
        """End its part in the run, for no issue. Its samples stay, its process ends."""
        if self.active:
            self.recorder.note(ending=Ending(verdict, reason))
        self._leave()

    def fail(self, error: Exception, said: str = "sent an answer that cannot be read") -> None:
        """End its part in the run because its process failed, or `said` something that is no answer."""
        if not isinstance(error, ChildError):
            error = ChildError("protocol", f"{said}: {error}")
        if error.kind == "contract" and self.find(Sighting("output.wrong_form", str(error))):
            return
        confined = self.observed.confined is not None
        refused = confined and error.kind == "raised" and any(one in str(error) for one in _REFUSALS)
        self.stop(Verdict.SKIPPED if error.kind == "skip" else Verdict.FAILED, f"{error}{_HELD if refused else ''}")
        if error.kind == "skip":
            self.recorder.note(log=[])

    def _leave(self) -> None:
        self.active = False
        self.end_process()
