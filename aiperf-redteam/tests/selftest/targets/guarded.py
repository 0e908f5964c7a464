"""A target with honest and dishonest variants, for tests of the proof runner.

All of them sleep: a busy machine then changes their times least.
"""

import os
import subprocess
import time

import torch

from aiperf_core import Benchmark, Cost, fp32

LONG_S, SHORT_S = 0.05, 0.012

bench = Benchmark(goal="speed", cache="warm")


@bench.workload(smoke={"n": 1009})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a):
    return a.sin()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="antipattern")
def idle(a):
    time.sleep(LONG_S)
    return a.sin()


@bench.variant(device="cpu", why="waits less")
def brisk(a):
    time.sleep(SHORT_S)
    return a.sin()


@bench.variant(device="cpu", why="does what the baseline does")
def as_idle(a):
    time.sleep(LONG_S)
    return a.sin()


@bench.variant(device="cpu", why="returns the answer to the values that it was prepared with")
class Kept:
    def prepare(self, a):
        self.answer = a.sin()

    def run(self, a):
        time.sleep(SHORT_S)
        return self.answer.clone()


@bench.variant(device="cpu", why="returns zeros")
def zeros(a):
    time.sleep(SHORT_S)
    return torch.zeros_like(a)


@bench.variant(device="cpu", why="prints the processors that it may use")
class ShowsProcessors:
    def prepare(self, a):
        print(sorted(os.sched_getaffinity(0)))

    def run(self, a):
        time.sleep(SHORT_S)
        return a.sin()


@bench.variant(device="cpu", why="raises")
def raises(a):
    raise RuntimeError("a look-alike with a bug")


@bench.variant(device="cpu", why="needs another machine", requires="machine:abacus")
def elsewhere(a):
    return a.sin()


@bench.variant(device="cpu", why="leaves a process behind, in a session of its own")
class LeavesAProcess:
    def prepare(self, a):
        self.left = subprocess.Popen(["sleep", "3601"], start_new_session=True)

    def run(self, a):
        time.sleep(SHORT_S)
        return a.sin()
