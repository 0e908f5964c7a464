"""Observes what a process does between its calls by figures of the kernel and NVML, never by its own reports."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from attrs import define, field, frozen

from aiperf_core.devices.nvml import Nvml
from aiperf_core.measurements import Census

# How long threads that have finished may spin before they sleep; OpenMP's do so for milliseconds.
SETTLE_S = 0.05
# The shortest gap that is observed. The kernel counts a running thread's time in ticks of up to 10 ms.
WATCH_S = 0.02
_PROC = Path("/proc")
# How long a process may take to stop, how often that is polled, and the states of stopped or ended threads.
STOPPED_S, _STOPPING_POLL_S = 0.05, 50e-6
_STOPPED = {"T", "t", "Z", "X", ""}
_SETTLING_POLL_S = 0.0005
# A child that used less processor time since the last census only waits.
_WORKING_S = 0.001
_SCHEDULERS = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
# In increasing order of priority.
_BY_WEIGHT = ("idle", "batch", "other", "ext", "rr", "fifo", "deadline")
_RESET_ON_FORK = 0x40000000
# Indices of fields in /proc/PID/stat, counted after the name.
_STATE, _PARENT, _SESSION, _MAJOR_FAULTS, _CHILDREN_USER, _CHILDREN_SYSTEM, _THREADS = 0, 1, 3, 9, 13, 14, 17
_CLOCK_OF_PROCESS = 2


@frozen
class Standing:
    """Totals of a process since its start, in seconds.

    all_s: processor time of all its threads and descendants.
    first_s: processor time of its first thread.
    waited_s: how long the first thread was ready to run and had no processor.
    """

    all_s: float
    first_s: float
    waited_s: float

    def kept_waiting_s(self, before: "Standing") -> float:
        """How long other processes kept the first thread waiting since `before`.

        Processor time of the process's own other threads and descendants is subtracted.
        """
        return max(0.0, self.waited_s - before.waited_s - self.others_s(before))

    def others_s(self, before: "Standing") -> float:
        """The processor time that the process's other threads and its descendants have used since `before`."""
        return max(0.0, (self.all_s - self.first_s) - (before.all_s - before.first_s))


@define(eq=False)
class ProcessMonitor:
    """Observes a process and its descendants from outside. Linux only; elsewhere every census is empty.

    The order in a sample: the worker has answered; `settle` and `mark`; the judge refreshes the inputs, and at least
    `WATCH_S` passes; `between_calls`; the next call. Limit: a descendant in another session whose parent has ended is
    not found.

    proc: the folder of the kernel's files.
    """

    pid: int
    proc: Path = _PROC
    _marked: dict[int, float] = field(factory=dict, init=False)
    _marked_ended_s: float = field(default=0.0, init=False)
    _seen: dict[int, float] = field(factory=dict, init=False)
    _seen_ended_s: float = field(default=0.0, init=False)
    _faults: int = field(default=0, init=False)
    _unrelated: set[int] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        """Count from now on."""
        if stat := self._stat(self.pid):
            self._faults, self._seen_ended_s = int(stat[_MAJOR_FAULTS]), _ended_s(stat)
            self._seen = _clocks(self._descendants([self.pid, *_threads(self.proc, self.pid)], stat))
        self.mark()

    def settle(self, most_s: float = SETTLE_S) -> bool:
        """Wait up to `most_s` until no thread runs: threads that only spin then sleep. Whether none runs."""
        return _wait(lambda: "R" not in _states(self.proc, self.pid), most_s, _SETTLING_POLL_S)

    def mark(self) -> None:
        """Count processor time from now on."""
        self._marked = _clocks([self.pid, *self._seen])
        self._marked_ended_s = _ended_s(self._stat(self.pid))

    def between_calls(self) -> Census:
        """A census. `busy_s` counts from the mark; working children and major faults from the last census.

        A child works if it used processor time, or ended after having used some; a waiting child, such as an idle
        compiler's, does not count. The census of a process that has ended is empty.
        """
        stat = self._stat(self.pid)
        if not stat:
            return Census()
        threads = _threads(self.proc, self.pid)
        clocks = _clocks(self._descendants(threads, stat))
        working = sum(spent - self._seen.get(pid, 0.0) >= _WORKING_S for pid, spent in clocks.items())
        working += _ended_s(stat) - self._seen_ended_s >= _WORKING_S
        faults = int(stat[_MAJOR_FAULTS])
        found = Census(
            children=working,
            threads=int(stat[_THREADS]),
            busy_s=self._busy_s({**clocks, **_clocks([self.pid])}, _ended_s(stat)),
            nice=_best_nice(threads),
            scheduler=_weightiest_scheduler(threads),
            affinity=_affinity(self.pid),
            swapped_bytes=self._swapped_bytes(),
            major_faults=faults - self._faults,
        )
        self._faults, self._seen, self._seen_ended_s = faults, clocks, _ended_s(stat)
        return found

    def standing(self) -> Standing | None:
        """The totals of the process; None where it has ended, or the kernel has no figures."""
        stat, told = self._stat(self.pid), self._read(f"{self.pid}/task/{self.pid}/schedstat").split()
        if not stat or len(told) < 2:
            return None
        spent = _clocks([self.pid, *self._descendants(_threads(self.proc, self.pid), stat)])
        return Standing(sum(spent.values()) + _ended_s(stat), int(told[0]) / 1e9, int(told[1]) / 1e9)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, waited for or not."""
        return not self._stat(self.pid)

    def descendants(self) -> list[int]:
        """The living descendants of the process."""
        return self._descendants(_threads(self.proc, self.pid), self._stat(self.pid))

    def gpus(self, nvml: Nvml) -> tuple[str, ...] | None:
        """The UUIDs of the GPUs on which the driver lists the process or a descendant; None where it lists neither.

        In a container without the host's process ids the list is empty, or has other ids.
        """
        ours = {self.pid, *self.descendants()}
        found = []
        for index in range(nvml.ask("nvmlDeviceGetCount") or 0):
            gpu = nvml.ask("nvmlDeviceGetHandleByIndex", index)
            listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses", gpu) if gpu is not None else None
            if ours & {one.pid for one in listed or ()}:
                found.append(nvml.ask("nvmlDeviceGetUUID", gpu) or f"GPU {index}")
        return tuple(sorted(found)) or None

    def _busy_s(self, clocks: dict[int, float], ended_s: float) -> float | None:
        """Processor time since the mark, without children unknown at the mark: when they used it is not known."""
        if self.pid not in clocks or self.pid not in self._marked:
            return None
        living = sum(spent - self._marked[pid] for pid, spent in clocks.items() if pid in self._marked)
        return max(0.0, living) + max(0.0, ended_s - self._marked_ended_s)

    # --- descendants

    def _descendants(self, threads: Iterable[int], stat: list[str]) -> list[int]:
        """Living descendants: known ones, children of these threads, and orphans reparented to our parent."""
        found = dict.fromkeys(pid for pid in self._seen if self._stat(pid))
        for thread in threads:
            found |= dict.fromkeys(self._below(f"{self.pid}/task/{thread}"))
        if stat and stat[_SESSION] == str(self.pid):
            beside = self._children(f"{stat[_PARENT]}/task/{stat[_PARENT]}")
            for pid in {*beside} - {self.pid, *found} - self._unrelated:
                orphan = self._stat(pid)
                if orphan and orphan[_SESSION] == str(self.pid):
                    found |= dict.fromkeys([pid, *self._below(f"{pid}/task/{pid}")])
                elif orphan:  # it never joins this session
                    self._unrelated.add(pid)
        return list(found)

    def _below(self, thread: str) -> Iterator[int]:
        for child in self._children(thread):
            yield child
            for inner in _threads(self.proc, child):
                yield from self._below(f"{child}/task/{inner}")

    # --- the kernel's files

    def _stat(self, pid: int) -> list[str]:
        """The fields after the name, which may contain any character; empty for a process that has ended."""
        fields = self._read(f"{pid}/stat").rpartition(")")[2].split()
        return [] if len(fields) <= _THREADS or fields[_STATE] == "Z" else fields

    def _children(self, thread: str) -> list[int]:
        return [int(one) for one in self._read(f"{thread}/children").split()]

    def _swapped_bytes(self) -> int | None:
        found = self._read(f"{self.pid}/status").partition("VmSwap:")[2].split(maxsplit=1)
        return int(found[0]) * 1024 if found else None

    def _read(self, path: str) -> str:
        return _read(f"{self.proc}/{path}")


def own_wait_s() -> float:
    """How long this thread has been ready to run without a processor, in seconds; 0 where the kernel has no figure."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def wait_stopped(pid: int, most_s: float = STOPPED_S) -> bool:
    """Wait up to `most_s` until all threads of a process that was sent SIGSTOP are stopped. Whether they are.

    One thread must run to take the signal. It may wait for a processor while the others go on.
    """
    return _wait(lambda: are_stopped(pid), most_s, _STOPPING_POLL_S)


def are_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped or have ended."""
    return _states(_PROC, pid) <= _STOPPED


def _wait(met: Callable[[], bool], most_s: float, every_s: float) -> bool:
    """Poll a condition for up to `most_s`. Whether it was met."""
    deadline = time.perf_counter() + most_s
    while not met():
        if time.perf_counter() >= deadline:
            return False
        time.sleep(every_s)
    return True


def _states(proc: Path, pid: int) -> set[str]:
    """The states of a process's threads, as the kernel's letters; an empty text for a thread that has just ended."""
    return {_read(f"{proc}/{pid}/task/{one}/stat").rpartition(")")[2][1:2] for one in _threads(proc, pid)}


def _threads(proc: Path, pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"{proc}/{pid}/task")]
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def process_s(pid: int) -> float | None:
    """The processor time of a process in seconds, ended threads included; None where the process has ended."""
    try:
        # The clock id of another process, as clock_getcpuclockid(3) computes it.
        return time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    except (OSError, OverflowError):
        return None


def _clocks(pids: Iterable[int]) -> dict[int, float]:
    return {pid: spent for pid in pids if (spent := process_s(pid)) is not None}


def _ended_s(stat: list[str]) -> float:
    """The processor time of children that were waited for, rounded down to a tick by the kernel."""
    ticks = int(stat[_CHILDREN_USER]) + int(stat[_CHILDREN_SYSTEM]) if stat else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _best_nice(threads: Iterable[int]) -> int | None:
    found = []
    for thread in threads:
        with contextlib.suppress(OSError):
            found.append(os.getpriority(os.PRIO_PROCESS, thread))
    return min(found, default=None)


def _weightiest_scheduler(threads: Iterable[int]) -> str | None:
    found = []
    for thread in threads:
        with contextlib.suppress(OSError, AttributeError):
            found.append(_SCHEDULERS.get(os.sched_getscheduler(thread) & ~_RESET_ON_FORK, "other"))
    return max(found, key=_BY_WEIGHT.index, default=None)


def _affinity(pid: int) -> tuple[int, ...] | None:
    try:
        return tuple(sorted(os.sched_getaffinity(pid)))
    except (OSError, AttributeError):
        return None
