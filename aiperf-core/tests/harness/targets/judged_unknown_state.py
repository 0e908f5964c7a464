"""A target that names as state what is no input."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")


@bench.workload(smoke={}, state=("cache", "a"))
def inputs(device):
    return {"a": torch.ones(3, device=device), "b": torch.ones(3, device=device)}


@bench.reference(tolerance=exact)
def reference(a, b):
    return a + b


@bench.cost
def cost():
    return Cost(flops=3)


@bench.baseline(device="cpu", kind="naive")
def added(a, b):
    return a + b
