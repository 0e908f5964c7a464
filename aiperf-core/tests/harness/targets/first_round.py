"""A variant that replaces a function of its process in its first one only, and is honest in all others."""

import statistics
from pathlib import Path

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", folder=True)


@bench.workload(smoke={"n": 1009})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a * 2


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def doubled(a):
    return a * 2


@bench.variant(device="cpu", why="an honest one")
def added(a):
    return a + a


@bench.variant(device="cpu", why="is caught if every round is looked at")
class OnlyAtFirst:
    def prepare(self, folder):
        mark = Path(folder).parent / "was-here"
        if not mark.exists():
            mark.touch()
            statistics.median = statistics.mean

    def run(self, a):
        return a * 2
