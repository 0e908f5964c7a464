"""A target whose tolerance lets everything pass, for tests of the proof runner."""

import torch

from aiperf_core import Benchmark, Cost
from aiperf_core.tolerance import Tolerance

bench = Benchmark(goal="speed", cache="warm")


@bench.workload(smoke={"n": 1009})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=Tolerance(rel_l2=0.99, reason="none at all"))
def reference(a):
    return a.sin()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def sines(a):
    return a.sin()
