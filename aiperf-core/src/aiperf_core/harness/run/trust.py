"""How a run treats code that is trusted, and how it treats untrusted code."""

import random
import time

from attrs import define, evolve, field

from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.options import COMPILING

JUDGED_FRACTION = 0.25
# A worker's notices during a sample, in their order.
_NOTICES = ("start", "stop", "fingerprinted")


@define
class Notices:
    """The times of a worker's notices by the supervisor's clock: start, stop, fingerprint of the output.

    _guarded: whether each notice may come once, in this order. Otherwise the first of each counts.
    """

    _guarded: bool
    _times_ns: dict[str, int] = field(factory=dict)

    def note(self, notice: str) -> None:
        """Raises `ChildError` for one that does not come next."""
        if self._guarded and notice not in _NOTICES[len(self._times_ns) : len(self._times_ns) + 1]:
            raise ChildError("protocol", f"sent the notice {notice!r} after {', '.join(self._times_ns) or 'none'}")
        self._times_ns.setdefault(notice, time.perf_counter_ns())

    @property
    def bracket_s(self) -> float:
        """Seconds from the start to the stop. Raises `KeyError` where one of them is missing."""
        return (self._times_ns["stop"] - self._times_ns["start"]) / 1e9

    def fingerprinted(self, answered: float) -> float:
        """When the output was ready, by `time.perf_counter`: before it was delivered, or with the answer."""
        return self._times_ns["fingerprinted"] / 1e9 if "fingerprinted" in self._times_ns else answered

    def begun_s(self, asked: float) -> float:
        """Seconds from a time of `time.perf_counter` to the start."""
        return self._times_ns["start"] / 1e9 - asked


class Trusted:
    """The treatment of trusted code.

    own_values: whether each sample has values that no other implementation is given, and memory is cleared before it.
    delivers: whether every sample delivers its output before it is known whether it is judged.
    own_memory: whether each process maps inputs and outputs of its own: one that maps a memory file can take its pages
        from all others that map it.
    observed: whether an observer outside of the processes times the samples.
    in_batches: whether the supervisor times calls in a row, by which a gain is confirmed.
    """

    own_values = False
    own_memory = False
    delivers = False
    observed = False
    in_batches = False

    def rng(self, seed: int) -> random.Random:
        """What draws the values of inputs."""
        return random.Random(seed)

    def is_judged(self, rng: random.Random) -> bool:
        """Whether a sample is compared with the reference: some by chance."""
        return rng.random() < JUDGED_FRACTION

    def timeout_s(self, timeout_s: float, *, first: bool) -> float:
        """The seconds that a sample may take. `first`: whether it is the first call in its process."""
        return timeout_s

    def wait_stopped(self, child: WorkerHandle | Child) -> bool:
        """Wait until a process has stopped. Return whether it is one that is stopped."""
        return False

    def excused_s(self, own_wait_s: float, others_s: float) -> float:
        """The time in which others kept the supervisor from running, of which threads of the process took a part."""
        return max(0.0, own_wait_s)

    def says_something(self, left_s: float) -> bool:
        """Whether an uncounted sample counts, of which this is left when waiting is taken off."""
        return True

    def from_outside(self, sample: Sample, notices: Notices, asked: float, answered: float) -> Sample:
        """A sample with its course by the supervisor's clock: unchanged here, since other threads may be busy."""
        return sample


class Untrusted(Trusted):
    """The treatment of untrusted code: nothing that its process says is believed without a view from outside."""

    own_values = True
    delivers = True
    in_batches = True

    def rng(self, seed: int) -> random.Random:
        """The operating system's: code must not be able to compute its values from those that it has seen."""
        return random.SystemRandom()

    def is_judged(self, rng: random.Random) -> bool:
        """Every sample is compared with the reference."""
        return True

    def timeout_s(self, timeout_s: float, *, first: bool) -> float:
        """The first call in a process may compile."""
        return timeout_s * (COMPILING if first else 1)

    def wait_stopped(self, child: WorkerHandle | Child) -> bool:
        """Wait until a process that is stopped between requests has stopped."""
        if child.paused:
            process_monitor.wait_stopped(child.pid)
        return child.paused

    def excused_s(self, own_wait_s: float, others_s: float) -> float:
        """Threads of the process itself are no excuse: their processor time is taken off."""
        return max(0.0, own_wait_s - others_s)

    def says_something(self, left_s: float) -> bool:
        """Where more would be taken off than there is, the sample says nothing."""
        return left_s >= 0

    def from_outside(self, sample: Sample, notices: Notices, asked: float, answered: float) -> Sample:
        """From the request to the start, and to the reply."""
        return evolve(sample, begun_s=notices.begun_s(asked), replied_s=answered - asked)


class Observed(Untrusted):
    """The treatment of untrusted code on a processor: its process decides no time."""

    own_memory = True
    observed = True
    in_batches = False
