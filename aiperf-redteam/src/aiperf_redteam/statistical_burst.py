"""A burst of waiting that falls on one side.

Workload   A damped iteration, see `relaxation`, while a lock is held of which the machine has one.
Baseline   Step by step.
Variants   `burst` has a process that holds the lock most of the time while its own calls are long past, as they are
           while all samples of the baseline are taken in a row; `in_halves` is honest.
Breaks     The process is one of no session or group that the harness ends. Code that is not trusted cannot start such.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import fcntl
import mmap
import os
import struct
import time
from contextlib import suppress

from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

bench = benchmark(steps=SHORT)

# Its own calls are past when the last one began so long ago: longer than the turn of the others, where they take turns.
PAST_S = 0.05
# Free for less than a call takes: each call of another begins with a wait.
HELD_S, FREE_S, MOST_S = 0.010, 0.0002, 30.0


class Locked:
    """Works under the lock."""

    def prepare(self):
        self.lock = open(__file__)  # noqa: SIM115  kept for all calls

    def under_lock(self, call, *arguments):
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            return call(*arguments)
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)


@bench.baseline(device="cpu", kind="reasonable")
class Stepwise(Locked):
    def run(self, x, steps):
        return self.under_lock(work, x, steps)


def hold_often(shared, owner):
    """Hold the lock while the owner's last call is past, until the owner has ended."""
    until = time.monotonic() + MOST_S
    # Beside the others' processor, which it would take from them each time it wakes.
    mine = os.sched_getaffinity(0)
    with suppress(OSError):  # no other one is allowed to it
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - mine or mine)
    with open(__file__) as lock:
        while (now := time.monotonic()) < until:
            try:
                os.kill(owner, 0)
            except ProcessLookupError:
                return
            (called,) = struct.unpack_from("d", shared)
            if called and now - called > PAST_S:
                fcntl.flock(lock, fcntl.LOCK_EX)
                time.sleep(HELD_S)
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(FREE_S)
            else:
                time.sleep(HELD_S)


def start_apart(work_of, *arguments):
    """Run a function in a process that does not rest when this one does, and is no descendant of it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            work_of(*arguments)
    finally:
        os._exit(0)


@bench.variant(
    device="cpu", why="what all wait for is taken while the baseline is measured, and free when its turn comes"
)
class Burst(Locked):
    def prepare(self):
        super().prepare()
        self.shared = mmap.mmap(-1, struct.calcsize("d"))
        start_apart(hold_often, self.shared, os.getpid())

    def run(self, x, steps):
        struct.pack_into("d", self.shared, 0, time.monotonic())
        return self.under_lock(work, x, steps)


@bench.variant(device="cpu", why="honest: waits for the lock like all, and does the work in two halves")
class InHalves(Locked):
    def halves(self, x, steps):
        half = steps // 2
        return relax(work(x, half), x, steps - half)

    def run(self, x, steps):
        return self.under_lock(self.halves, x, steps)
