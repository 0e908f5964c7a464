"""Results that a loop keeps lie in fresh memory, and the first write to each page of it costs a fault."""

import resource
import time

import torch

from aiperf_core import Benchmark, Cost, fp32

N = 1 << 22

bench = Benchmark(goal="speed", clock="wall", threads=1)


@bench.workload(smoke={"n": 1021}, cpu={"n": N})
def inputs(n, device, generator):
    return {"x": torch.randn(n, generator=generator), "y": torch.randn(n, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, y):
    return x + y


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def fresh(x, y):
    return x + y


@bench.variant(device="cpu", why="the result's memory is allocated once, not in every call")
class Reused:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x, y):
        return torch.add(x, y, out=self.out)


def fooled():
    x, y, out = torch.randn(N), torch.randn(N), torch.zeros(N)
    results = []
    start = time.perf_counter()
    for _ in range(10):
        results.append(x + y)
    fresh_s = (time.perf_counter() - start) / 10
    start = time.perf_counter()
    for _ in range(10):
        results.append(torch.add(x, y, out=out))
    return {"fresh": fresh_s, "reused": (time.perf_counter() - start) / 10}


def cause():
    x, y, out, results = torch.randn(N), torch.randn(N), torch.zeros(N), []
    calls = {"fresh": lambda: results.append(x + y), "reused": lambda: results.append(torch.add(x, y, out=out))}
    yield "page faults in a call", "count", {name: faults(call) for name, call in calls.items()}


def faults(call):
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
