"""The first call in a process also pays for what is set up once, such as pages of the library's code."""

import resource
import time

import torch

from aiperf_core import Benchmark, Cost, fp32

N = 1024

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.randn(n, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return torch.fft.rfft(x)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def spectrum(x):
    return torch.fft.rfft(x)


def fooled():
    x = torch.randn(N)
    start = time.perf_counter()
    spectrum(x)
    return {"spectrum": time.perf_counter() - start}


def cause():
    x, seconds, faults = torch.randn(N), {}, {}
    for call in ("first", "second", "third"):
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        spectrum(x)
        seconds[call] = time.perf_counter() - start
        faults[call] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    yield "page faults in a call", "count", faults
    yield "time of a call", "s", seconds
