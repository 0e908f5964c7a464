"""A sound workload, and implementations that go wrong in every way.

Question    Does each wrong implementation fail alone?
Numbers     b = 3a + 1. `right` is right; each variant is wrong in the way of its name.
Prediction  None.
Limits      None.
"""

import os
import signal

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.errors import SkipError

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 37}, large={"n": 41})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a):
    return 3 * a + 1


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="naive")
def right(a):
    return 3 * a + 1


@bench.variant(device="cpu", why="computes before the values are drawn")
class Ahead:
    def prepare(self, a):
        self.out = 3 * a + 1

    def run(self, a):
        return self.out


@bench.variant(device="cpu", why="leaves out the last block")
def without_tail(a):
    out = torch.zeros_like(a)
    whole = a.numel() // 8 * 8
    out[:whole] = 3 * a[:whole] + 1
    return out


@bench.variant(device="cpu", why="needs no memory of its own")
def in_place(a):
    return a.mul_(3).add_(1)


@bench.variant(device="cpu", why="returns another form")
def as_list(a):
    return (3 * a + 1).tolist()


@bench.variant(device="cpu", why="raises")
def raises(a):
    raise RuntimeError("no kernel for this size")


@bench.variant(device="cpu", why="takes its process with it")
def dies(a):
    os.kill(os.getpid(), signal.SIGSEGV)


@bench.variant(device="cpu", why="is for another machine")
def skips(a):
    raise SkipError("needs a machine that nobody has")


@bench.variant(device="cpu", why="is right at the smoke sizes only")
def small_only(a):
    return 3 * a + 1 if a.numel() == 37 else a
