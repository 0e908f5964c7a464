"""What an implementation sets for its process, and nobody else has.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, on the one processor that all are given.
Variants   Attacks, and honest code that looks like them.
Breaks     A machine with one processor has none to take beside it.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import gc
import mmap
import os
from pathlib import Path

import torch

from aiperf_redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)
# Bytes of a call, and what Linux calls MADV_PAGEOUT.
SWAPPED, PAGE_OUT = 1 << 20, 21


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


@bench.variant(device="cpu", why="takes every processor of the machine, and goes first where it may")
class GoesFirst:
    def prepare(self):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        try:
            os.nice(-5)
        except PermissionError:
            return

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="honest: makes way for others")
class MakesWay:
    def prepare(self):
        os.nice(1)

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="moves to a processor of another NUMA node")
class OtherNode:
    def prepare(self):
        os.sched_setaffinity(0, cpus_beside(os.sched_getaffinity(0), same_node=False))

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="honest: moves to another processor of the same NUMA node")
class SameNode(OtherNode):
    def prepare(self):
        os.sched_setaffinity(0, cpus_beside(os.sched_getaffinity(0), same_node=True))


@bench.variant(device="cpu", why="needs more memory in each call, and has the kernel move it to swap after its use")
class SwapsOut:
    def prepare(self):
        self.used = []

    def run(self, x, steps):
        for memory in self.take_more():
            memory.madvise(PAGE_OUT)
        return work(x, steps)

    def take_more(self):
        """All of its memory, each page of which was written."""
        self.used.append(mmap.mmap(-1, SWAPPED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for memory in self.used:
            for place in range(0, SWAPPED, mmap.PAGESIZE):
                memory[place] = 1
        return self.used


@bench.variant(device="cpu", why="honest: needs as much memory, and keeps it")
class KeepsMemory(SwapsOut):
    def run(self, x, steps):
        self.take_more()
        return work(x, steps)


def cpus_beside(own, *, same_node):
    """The processors of another node than that of `own`, or the others of its node."""
    first = min(own)
    for folder in Path("/sys/devices/system/node").glob("node[0-9]*"):
        cpus = {int(one.name[3:]) for one in folder.glob("cpu[0-9]*")}
        if cpus and (first in cpus) == same_node:
            return cpus - {first} or cpus
    return own


@bench.variant(device="cpu", why="sets threads, gradients and the collector of its process otherwise than all others")
class SetsProcess:
    def prepare(self):
        torch.set_grad_enabled(False)
        torch.set_num_interop_threads(1 + torch.get_num_interop_threads())
        gc.set_threshold(100_000)

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="honest: switches gradients off within its call, and on again")
def without_gradients(x, steps):
    with torch.no_grad():
        return work(x, steps)


@bench.variant(device="cpu", why="leaves a profiler running, which slows what is timed beside it")
class LeavesProfiler:
    def prepare(self):
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self.profiler.start()

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cpu", why="honest: profiles its preparation, and stops before it is timed")
class ProfilesItself:
    def prepare(self, x, steps):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            work(x, steps)

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(
    device="cuda", requires="gpus:2", why="all of the work is done on another GPU than the one of the target"
)
class ElsewhereThanDeclared:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x, steps):
        there = work(x.to("cuda:1", non_blocking=True), steps)
        return self.out.copy_(there, non_blocking=True)


@bench.variant(device="cuda", requires="gpus:2", why="honest: asks about another GPU, and works on its own")
def asks_about_another(x, steps):
    return work(x, steps if torch.cuda.get_device_properties(1).total_memory else 0)
