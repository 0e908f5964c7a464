"""Calls far shorter than the clock that times them, on data that lives in the cache."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 4})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 100, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=8 * n)


@bench.baseline(device="cpu", kind="reasonable")
def returned(a):
    return a


@bench.variant(device="cpu", why="more of the same")
def returned_late(a):
    for _ in range(120):
        pass
    return a


@bench.variant(device="cpu", why="long enough to be timed by itself")
def copied_often(a):
    for _ in range(2000):
        pass
    return a.clone()
