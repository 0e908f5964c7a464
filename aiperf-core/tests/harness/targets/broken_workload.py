"""A benchmark whose reference raises: nothing of it can be measured."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 8})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    raise ZeroDivisionError("the reference is at fault")


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n)


@bench.baseline(device="cpu", kind="naive")
def same(a):
    return a
