"""Another process had the processor for a part of the time. The clock counts it, and processor time does not."""

import resource
import time
import timeit

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_learn.surprises.busy import neighbours

N, CALLS = 256, 1000

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 13}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.randn(n, n, generator=generator), "y": torch.randn(n, n, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, y):
    return x @ y


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3)


@bench.baseline(device="cpu", kind="reasonable")
def old(x, y):
    return x @ y


@bench.variant(device="cpu", why="the same code under another name")
def new(x, y):
    return x @ y


def fooled():
    x = torch.randn(N, N)
    with neighbours():  # such as a build that goes on
        old_s = timeit.timeit(lambda: old(x, x), number=CALLS) / CALLS
    new_s = timeit.timeit(lambda: new(x, x), number=CALLS) / CALLS
    return {"old": old_s, "new": new_s}


def cause():
    def switches():
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    x = torch.randn(N, N)
    old(x, x)
    lost, elapsed, worked = {}, {}, {}
    for state, count in {"alone": 0, "beside": None}.items():
        with neighbours(count):
            before, worked_before = switches(), time.process_time()
            elapsed[state] = timeit.timeit(lambda: old(x, x), number=CALLS) / CALLS
            lost[state], worked[state] = switches() - before, (time.process_time() - worked_before) / CALLS
    yield "losses of the processor", "count", lost
    yield "time of a call", "s", elapsed
    yield "its processor time", "s", worked
