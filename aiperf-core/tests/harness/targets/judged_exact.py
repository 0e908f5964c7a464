"""A target whose answer must be exact, so that the reference works in the dtypes of the inputs."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")
seen: list[torch.dtype] = []


@bench.workload(smoke={"n": 8})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    seen.append(a.dtype)
    return a * 2


@bench.cost
def cost(n):
    return Cost(flops=n)


@bench.baseline(device="cpu", kind="naive")
def doubled(a):
    return a * 2
