"""Samples of untrusted code on processors: an observer releases the inputs, sees the end, and stops the process.

Nothing that the process says of the time counts. The observer is a process of its own where two processors are free
beside the workload's threads, and spins. Elsewhere it is the supervisor, which sleeps until the process sends a
message.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from attrs import define, field

from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.isolation.observer import Observed, observe
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import JudgeError, SampleTaker
from aiperf_core.measurements import Faults
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
    _groups: dict[int, ProcessGroup] = field(factory=dict, init=False)

    def take(
        self,
        one: Participant,
        seed: int,
        clock: str,
        *,
        fresh: bool = True,
        calls: int | None = None,
        fingerprinted: bool = False,
        first: bool = False,
        watcher: process_monitor.ProcessMonitor | None = None,
    ) -> dict[str, Any] | None:
        """Time a sample of one call; None where the implementation's part has ended."""
        try:
            return self._take(one, seed, fresh=fresh, first=first)
        except (ChildError, KeyError, ValueError) as error:
            one.fail(error, "sent no sample")
            self.present = None
            return None

    def _take(self, one: Participant, seed: int, *, fresh: bool, first: bool) -> dict[str, Any] | None:
        worker, method = one.worker, self.method
        assert isinstance(worker, Child)
        timeout_s = method.trust.timeout_s(method.timeout_s, first=first)
        after_itself, self._last = self._last is one, one
        start = time.perf_counter()
        worker.ask("ready", timeout=method.timeout_s)
        worker.post("observed_sample")
        worker.stop_at("ready", timeout=method.timeout_s)
        self.clockwork.messages_s += time.perf_counter() - start
        self._halt(worker)
        stopped = process_monitor.process_s(worker.pid)
        self._renew(one, seed, own=fresh and "fresh_values" not in method.off)
        continued = process_monitor.process_s(worker.pid)
        self._wait_stopped(self.judge)  # its threads would take processors from the call
        if one.declared.role != "baseline" and not self._group(worker).is_stopped:
            raise _not_stopped(worker)
        self._halt_others(one)
        seen = self._observe(one, timeout_s)
        numbers = self._kept_output(one) if seen.ended_s is not None and seen.halted_s is not None else {}
        told = self._told(worker, seen, timeout_s)
        told["output"]["numbers"] = numbers
        starved = seen.gap_s > STARVED * (seen.ended_s or 0.0)
        if one.declared.role != "baseline" and one.is_starved(starved, LEAST_SEEN):
            # What its process has changed in itself is found all the same.
            one.ask_state()
            one.keep_state()
            one.was_starved = one.active
            one.stop(Verdict.INCONCLUSIVE, STARVED_REASON)
            return None
        return {
            **told,
            "faults": None if told["faults"] is None else Faults(**told["faults"], after_itself=after_itself),
            "own_s": told["wall_s"],
            "wall_s": seen.ended_s,
            "bracket_s": seen.ended_s,
            "begun_s": None,
            "answered_s": seen.ended_s,
            "replied_s": seen.halted_s,
            "stopped_s": None if stopped is None or continued is None else continued - stopped,
        }

    def _halt(self, worker: Child) -> None:
        """Wait until all processes have stopped, so that none sees the values before the release."""
        start = time.perf_counter()
        halted = self._group(worker).halt()
        self.clockwork.stopping_s += time.perf_counter() - start
        if halted is None:
            raise _not_stopped(worker)

    def _halt_others(self, one: Participant) -> None:
        """Wait until all processes of the other variants have stopped; a variant whose do not is out of the run.

        They have stopped at the end of their samples, and went on to answer.
        """
        for other in self.participants:
            if other is not one and other.declared.role == "variant" and other.running:
                assert isinstance(other.child, Child)
                if self._group(other.child).halt() is None:
                    other.fail(_not_stopped(other.child))

    def _group(self, worker: Child) -> ProcessGroup:
        if worker.pid not in self._groups:
            self._groups[worker.pid] = ProcessGroup(worker.pid)
        return self._groups[worker.pid]

    def _observe(self, one: Participant, timeout_s: float) -> Observed:
        """Release the inputs and see the sample end."""
        worker, page = one.worker, one.page
        assert isinstance(worker, Child)
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

    def _kept_output(self, one: Participant) -> dict[str, Any]:
        """Have the judge copy the output while the process is stopped; return the numbers in it."""
        self.ask_judge("keep")
        assert one.page is not None
        return answers.numbers(one.page.told())

    def _told(self, worker: Child, seen: Observed, timeout_s: float) -> dict[str, Any]:
        """What the process itself says of the sample. Raises `ChildError` where it did not end it, or goes on."""
        if seen.halted_s is None:
            raise _not_stopped(worker)
        worker.resume()
        if seen.ended_s is None and not worker.has_message(0.0):
            raise worker.give_up(timeout_s)
        told = answers.sample(worker.collect(timeout=self.method.timeout_s, on_notice=_only_the_end()))
        if seen.ended_s is None:
            raise ChildError("protocol", "answered without the number of the sample")
        if told["wall_s"] is None or told["output"] is None:
            raise ValueError("the sample has no time or no output")
        return told


def _not_stopped(worker: Child) -> ChildError:
    """The error of a process that goes on after it was stopped; it is killed."""
    worker.kill()
    return ChildError("protocol", "did not stop: a process that it started left its group, or waits in the kernel")


def _only_the_end() -> Callable[[str], None]:
    """Refuses notices beyond that of the end, which may come once."""
    seen: list[str] = []

    def note(notice: str) -> None:
        if notice != "ended" or seen:
            raise ChildError("protocol", f"sent the notice {notice[:50]!r} after {', '.join(('ready', *seen))}")
        seen.append(notice)

    return note
