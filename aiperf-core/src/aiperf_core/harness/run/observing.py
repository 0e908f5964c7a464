"""Samples of untrusted code on processors: an observer releases the inputs, sees the end, and stops the process.

Nothing that the process says of the time counts. The observer is a process of its own where two processors are free
beside the workload's threads, and spins. Elsewhere it is the supervisor, which sleeps until the process sends a
message.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field

from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.isolation.observer import Observed, observe
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import JudgeError, SampleTaker
from aiperf_core.results.models import Verdict

# Processors that must be free beside the threads of the workload, for an observer that spins.
FREE = 2
# An observer that was kept from looking for this part of a sample does not know when it ended.
STARVED = 0.5
# Samples of an implementation from which it is decided whether its observer was starved.
LEAST_SEEN = 20
STARVED_REASON = (
    "other work on the machine kept its observer from looking for at least half of most samples: repeat it on a quiet "
    "machine"
)


def free_processors(threads: int | None) -> list[int]:
    """The processors beside those of a workload's threads, which are the last ones; none where it uses all."""
    usable = sorted(os.sched_getaffinity(0))
    return [] if threads is None else usable[: max(0, len(usable) - threads)]


def has_processor(threads: int | None) -> bool:
    """Whether a processor is free for an observer that spins, beside the threads of a workload; None for all."""
    return len(free_processors(threads)) >= FREE


@define(eq=False)
class ObservedTaker(SampleTaker):
    """Takes samples that an observer times.

    participants: all that take part.
    observer: its process; None where the supervisor is the observer.
    free: the processors for its process; none for all.
    """

    participants: list[Participant] = field(kw_only=True)
    observer: Child | None = field(default=None, kw_only=True)
    free: list[int] = field(factory=list, kw_only=True)
    _last: Participant | None = field(default=None, init=False)
    _after_itself: bool = field(default=False, init=False)
    _groups: dict[int, ProcessGroup] = field(factory=dict, init=False)

    def _get_ready(self, participant: Participant) -> None:
        """Have it wait for its inputs, stopped."""
        worker, timeout_s = _process(participant), self.method.timeout_s
        self._after_itself, self._last = self._last is participant, participant
        worker.ask("ready", timeout=timeout_s)
        worker.post("observed_sample")
        worker.stop_at("ready", timeout=timeout_s)

    def _stop(self, participant: Participant) -> bool:
        """Wait until all its processes have stopped, so that none sees the values before the release."""
        worker = _process(participant)
        start = time.perf_counter()
        halted = self._group(worker).halt()
        self.clockwork.stopping_s += time.perf_counter() - start
        if halted is None:
            raise _not_stopped(worker)
        return True

    def _time(
        self,
        participant: Participant,
        timeout_s: float,
        watcher: process_monitor.ProcessMonitor | None,
        **request: Any,
    ) -> Sample | None:
        """Have a sample of one call observed; None where its observer was starved in most samples."""
        worker = _process(participant)
        if participant.declared.role != "baseline" and not self._group(worker).is_stopped:
            raise _not_stopped(worker)
        self._halt_others(participant)
        observation = self._observe(participant, timeout_s)
        complete = observation.ended_s is not None and observation.halted_s is not None
        numbers = self._kept_output(participant) if complete else {}
        sample = self._reported(worker, observation, timeout_s)
        starved = observation.gap_s > STARVED * (observation.ended_s or 0.0)
        if participant.declared.role != "baseline" and participant.is_starved(starved, LEAST_SEEN):
            # What its process has changed in itself is found all the same.
            participant.ask_state()
            participant.keep_state()
            participant.was_starved = participant.active
            participant.stop(Verdict.INCONCLUSIVE, STARVED_REASON)
            return None
        assert sample.output is not None
        assert observation.ended_s is not None
        return evolve(
            sample,
            output=evolve(sample.output, numbers=numbers),
            faults=sample.faults and evolve(sample.faults, after_itself=self._after_itself),
            own_s=sample.wall_s,
            wall_s=observation.ended_s,
            bracket_s=observation.ended_s,
            answered_s=observation.ended_s,
            replied_s=observation.halted_s,
        )

    def _halt_others(self, participant: Participant) -> None:
        """Wait until all processes of the other variants have stopped; a variant whose do not is out of the run.

        They have stopped at the end of their samples, and went on to answer.
        """
        for other in self.participants:
            process = _process(other) if other.declared.role == "variant" and other.running else None
            if other is not participant and process is not None and self._group(process).halt() is None:
                other.fail(_not_stopped(process))

    def _group(self, worker: Child) -> ProcessGroup:
        if worker.pid not in self._groups:
            self._groups[worker.pid] = ProcessGroup(worker.pid)
        return self._groups[worker.pid]

    def _observe(self, participant: Participant, timeout_s: float) -> Observed:
        """Release the inputs and see the sample end."""
        worker, page = _process(participant), participant.page
        assert page is not None
        page.write(self._numbers)
        if self.observer is None:
            return observe(page, self._group(worker), timeout_s, worker.has_message)
        try:
            answer = self.observer.ask(
                "observe",
                timeout=2 * timeout_s,
                fds=(page.fd,),
                pid=worker.pid,
                timeout_s=timeout_s,
                free=self.free,
            )
        except ChildError as error:
            raise JudgeError(f"the observer failed: {error}") from error
        return Observed(**answer)

    def _kept_output(self, participant: Participant) -> dict[str, Any]:
        """Have the judge copy the output while the process is stopped; return the numbers in it."""
        self.ask_judge("keep")
        assert participant.page is not None
        return answers.numbers(participant.page.told())

    def _reported(self, worker: Child, observation: Observed, timeout_s: float) -> Sample:
        """The worker's report of the sample. Raises `ChildError` where it did not end it, or goes on."""
        if observation.halted_s is None:
            raise _not_stopped(worker)
        worker.resume()
        if observation.ended_s is None and not worker.has_message(0.0):
            raise worker.give_up(timeout_s)
        sample = answers.sample(worker.collect(timeout=self.method.timeout_s, on_notice=_only_the_end()))
        if observation.ended_s is None:
            raise ChildError("protocol", "answered without the number of the sample")
        if sample.wall_s is None or sample.output is None:
            raise ValueError("the sample has no time or no output")
        return sample


def _process(participant: Participant) -> Child:
    assert isinstance(participant.worker, Child)
    return participant.worker


def _not_stopped(worker: Child) -> ChildError:
    """The error of a process that goes on after it was stopped; it is killed."""
    worker.kill()
    return ChildError("protocol", "did not stop: a process that it started left its group, or waits in the kernel")


def _only_the_end() -> Callable[[str], None]:
    """Refuses notices beyond that of the end, which may come once."""
    notices: list[str] = []

    def note(notice: str) -> None:
        if notice != "ended" or notices:
            raise ChildError("protocol", f"sent the notice {notice[:50]!r} after {', '.join(('ready', *notices))}")
        notices.append(notice)

    return note
