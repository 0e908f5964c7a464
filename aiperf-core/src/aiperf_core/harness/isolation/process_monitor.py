"""What a process does between its calls, as the kernel and NVML tell it: nothing that the process says of itself."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from attrs import define, field, frozen

from aiperf_core.devices.nvml import Nvml
from aiperf_core.measurements import Census

# How long threads that have finished may go on spinning before they sleep: those of OpenMP do so for milliseconds.
SETTLE_S = 0.05
# A gap that is watched lasts so long at least: of a thread that runs on, the kernel counts the time by its ticks, of up to
# 10 ms.
WATCH_S = 0.02
_PROC = Path("/proc")
# How long a process may take to stop, and how often it is looked at meanwhile; what the states of its threads are then.
STOPPED_S, _STOPPING_S = 0.05, 50e-6
_STOPPED = {"T", "t", "Z", "X", ""}
_LOOK_S = 0.0005
# A child that used less since the last look only waits.
_WORKING_S = 0.001
# Threads other than the first are asked for their priority and their children in every so many censuses: each costs a
# file, and a process may have hundreds.
_THOROUGH_EVERY = 8
_SCHEDULERS = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
# From the mildest; of several threads the last counts.
_BY_WEIGHT = ("idle", "batch", "other", "ext", "rr", "fifo", "deadline")
_RESET_ON_FORK = 0x40000000
# Where in /proc/PID/stat, behind the name.
_STATE, _PARENT, _SESSION, _MAJOR_FAULTS, _CHILDREN_USER, _CHILDREN_SYSTEM, _THREADS = 0, 1, 3, 9, 13, 14, 17
_CLOCK_OF_PROCESS = 2


@frozen
class Standing:
    """Of a process, so far, in seconds.

    all_s: processor time of all its threads and descendants. first_s: that of its first thread. waited_s: how long that
    thread was ready to run and had no processor.
    """

    all_s: float
    first_s: float
    waited_s: float

    def kept_waiting_s(self, before: "Standing") -> float:
        """How long others kept the first thread waiting since then.

        What the process's own other threads, or its descendants, did meanwhile is no excuse.
        """
        return max(0.0, self.waited_s - before.waited_s - self.others_s(before))

    def others_s(self, before: "Standing") -> float:
        """The processor time that the process's other threads and its descendants have used since then."""
        return max(0.0, (self.all_s - self.first_s) - (before.all_s - before.first_s))


@define
class ProcessMonitor:
    """Watches a process and its descendants from outside. Linux only; elsewhere every census is empty.

    In the order of a sample: the worker has answered; `settle` and `mark`; new values are written to its inputs, and
    `WATCH_S` goes by; `between_calls`; the next call. A descendant that gave itself a session of its own and whose parent has ended is not
    seen. `proc` is where the kernel's files are.
    """

    pid: int
    proc: Path = _PROC
    _marked: dict[int, float] = field(factory=dict, init=False)
    _marked_ended_s: float = field(default=0.0, init=False)
    _seen: dict[int, float] = field(factory=dict, init=False)
    _seen_ended_s: float = field(default=0.0, init=False)
    _faults: int = field(default=0, init=False)
    _strangers: set[int] = field(factory=set, init=False)
    _turns: Iterator[int] = field(factory=count, init=False)

    def __attrs_post_init__(self) -> None:
        """Count from here."""
        if stat := self._stat(self.pid):
            self._faults, self._seen_ended_s = int(stat[_MAJOR_FAULTS]), _ended_s(stat)
            self._seen = _clocks(self._descendants([self.pid, *self._threads(self.pid)], stat))
        self.mark()

    def settle(self, most_s: float = SETTLE_S) -> bool:
        """Wait until no thread of the process runs, at most so long. Whether none does: those that only spin come to rest."""
        return _wait(lambda: "R" not in _states(self.proc, self.pid), most_s, _LOOK_S)

    def mark(self) -> None:
        """Count processor time from here."""
        self._marked = _clocks([self.pid, *self._seen])
        self._marked_ended_s = _ended_s(self._stat(self.pid))

    def between_calls(self) -> Census:
        """The process now. `busy_s` counts from the mark; children that work and major faults from the census before.

        A child works if it used processor time, or ended after having used some; one that waits, such as an idle
        compiler's, does not count. A thread's children, and its priority, may be noticed some censuses late. A process
        that has ended has an empty census.
        """
        stat = self._stat(self.pid)
        if not stat:
            return Census()
        threads = [self.pid] if next(self._turns) % _THOROUGH_EVERY else self._threads(self.pid)
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
        """How it stands with the process; None where it has ended, or the kernel does not tell."""
        stat, told = self._stat(self.pid), self._read(f"{self.pid}/task/{self.pid}/schedstat").split()
        if not stat or len(told) < 2:
            return None
        spent = _clocks([self.pid, *self._descendants(self._threads(self.pid), stat)])
        return Standing(sum(spent.values()) + _ended_s(stat), int(told[0]) / 1e9, int(told[1]) / 1e9)

    def gpus(self, nvml: Nvml) -> tuple[str, ...] | None:
        """The UUIDs of the GPUs on which the driver lists the process or a descendant; None where it lists them nowhere.

        In a container without the host's process ids the driver's list is empty, or speaks of other numbers.
        """
        ours = {self.pid, *self._descendants(self._threads(self.pid), self._stat(self.pid))}
        found = []
        for index in range(nvml.ask("nvmlDeviceGetCount") or 0):
            gpu = nvml.ask("nvmlDeviceGetHandleByIndex", index)
            listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses", gpu) if gpu is not None else None
            if ours & {one.pid for one in listed or ()}:
                found.append(nvml.ask("nvmlDeviceGetUUID", gpu) or f"GPU {index}")
        return tuple(sorted(found)) or None

    def _busy_s(self, clocks: dict[int, float], ended_s: float) -> float | None:
        """Since the mark. What a child used that was not known then is left out: nobody knows when it did."""
        if self.pid not in clocks or self.pid not in self._marked:
            return None
        living = sum(spent - self._marked[pid] for pid, spent in clocks.items() if pid in self._marked)
        return max(0.0, living) + max(0.0, ended_s - self._marked_ended_s)

    # --- descendants

    def _descendants(self, threads: Iterable[int], stat: list[str]) -> list[int]:
        """Living descendants: those known, those below these threads, and those handed on because their parent ended."""
        found = dict.fromkeys(pid for pid in self._seen if self._stat(pid))
        for thread in threads:
            found |= dict.fromkeys(self._below(f"{self.pid}/task/{thread}"))
        if stat and stat[_SESSION] == str(self.pid):
            beside = self._children(f"{stat[_PARENT]}/task/{stat[_PARENT]}")
            for pid in {*beside} - {self.pid, *found} - self._strangers:
                orphan = self._stat(pid)
                if orphan and orphan[_SESSION] == str(self.pid):
                    found |= dict.fromkeys([pid, *self._below(f"{pid}/task/{pid}")])
                elif orphan:  # it never joins this session
                    self._strangers.add(pid)
        return list(found)

    def _below(self, thread: str) -> Iterator[int]:
        for child in self._children(thread):
            yield child
            for inner in self._threads(child):
                yield from self._below(f"{child}/task/{inner}")

    # --- the kernel's files

    def _stat(self, pid: int) -> list[str]:
        """The fields behind the name, which may contain anything; none of a process that has ended."""
        fields = self._read(f"{pid}/stat").rpartition(")")[2].split()
        return [] if len(fields) <= _THREADS or fields[_STATE] == "Z" else fields

    def _children(self, thread: str) -> list[int]:
        return [int(one) for one in self._read(f"{thread}/children").split()]

    def _threads(self, pid: int) -> list[int]:
        return _threads(self.proc, pid)

    def _swapped_bytes(self) -> int | None:
        found = self._read(f"{self.pid}/status").partition("VmSwap:")[2].split(maxsplit=1)
        return int(found[0]) * 1024 if found else None

    def _read(self, path: str) -> str:
        return _read(f"{self.proc}/{path}")


def own_wait_s() -> float:
    """How long this thread was ready to run and had no processor, so far, in seconds; 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def wait_stopped(pid: int, most_s: float = STOPPED_S) -> bool:
    """Wait until all threads of a process that was sent SIGSTOP are stopped, at most so long. Whether they are.

    One of them must run to take the signal, which may wait for a processor, and the others go on meanwhile.
    """
    return _wait(lambda: _states(_PROC, pid) <= _STOPPED, most_s, _STOPPING_S)


def _wait(met: Callable[[], bool], most_s: float, every_s: float) -> bool:
    """Look again and again until something is so, at most so long. Whether it is."""
    deadline = time.perf_counter() + most_s
    while not met():
        if time.perf_counter() >= deadline:
            return False
        time.sleep(every_s)
    return True


def _states(proc: Path, pid: int) -> set[str]:
    """In which states the threads of a process are, by the kernel's letters; empty where one has just ended."""
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
    """The processor time of a process, of all threads that it has or had, in seconds; None where it has ended."""
    try:
        # The kernel's clock of another process, as clock_getcpuclockid(3) makes it of a pid.
        return time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    except (OSError, OverflowError):
        return None


def _clocks(pids: Iterable[int]) -> dict[int, float]:
    return {pid: spent for pid in pids if (spent := process_s(pid)) is not None}


def _ended_s(stat: list[str]) -> float:
    """The processor time of children that were waited for, which the kernel rounds down to a tick."""
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
