"""Pages that were never written are all the kernel's one page of zeros: nothing is read from memory."""

import timeit

import numpy
import psutil
import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

N = 1 << 24

bench = Benchmark(goal="speed", clock="wall", threads=1)


@bench.workload(smoke={"n": 1021}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.rand(n, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def total(x):
    return x.sum()


def fooled():
    x = torch.from_numpy(numpy.zeros(N, dtype=numpy.float32))
    return {"total": min(timeit.repeat(lambda: total(x), number=1, repeat=20))}


def cause():
    process, taken, seconds = psutil.Process(), {}, {}
    total(torch.zeros(N // 1024))  # whose first call loads code
    values = numpy.zeros(N, dtype=numpy.float32)
    for state in ("never written", "written"):
        before = process.memory_info().rss
        if state == "written":
            values.fill(0.0)
        seconds[state] = timeit.timeit(lambda: total(torch.from_numpy(values)), number=20) / 20
        taken[state] = process.memory_info().rss - before
    yield "memory that the zeros take", "B", taken
    yield "time of a sum", "s", seconds
