"""A target one of whose preparations takes a while, as a compiler does."""

import time

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="wall", cache="warm", prepare_timeout_s=30)


@bench.workload(smoke={"n": 64}, cpu={"n": 1 << 12})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a + 1


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def plain(a):
    return a + 1


@bench.variant(device="cpu", why="takes its time, before any clock runs")
class Compiled:
    def prepare(self):
        time.sleep(3)

    def run(self, a):
        return a + 1
