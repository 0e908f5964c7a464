"""A call in one thread of the host, shorter than a time slice or many slices long."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1, subject="host")


@bench.workload(smoke={"n": 1 << 16}, many={"n": 1 << 20})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 9, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a.sum()


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n)


@bench.baseline(device="cpu", kind="naive")
def element_by_element(a):
    total = 0
    for value in a.tolist():
        total += value
    return torch.tensor(total)
