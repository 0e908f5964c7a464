"""The same short call, but the caches are to be cold: it cannot be repeated, and is too short to be timed alone."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="wall")


@bench.workload(smoke={"n": 4})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 100, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a + 1


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=8 * n)


@bench.baseline(device="cpu", kind="reasonable")
def added(a):
    return a + 1


@bench.variant(device="cpu", why="the same, for longer")
def added_slowly(a):
    for _ in range(200_000):
        pass
    return a + 1
