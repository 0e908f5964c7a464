"""A target that works, and tells its reader nothing."""

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="latency")


@bench.workload(smoke={"n": 64})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a):
    return 3 * a + 1


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="naive")
def tripled(a):
    return 3 * a + 1


@bench.variant(device="cpu", why="fast")
def tripled_v2(a):
    return 3 * a + 1


@bench.yardstick(device="cpu")
def torch_add(a):
    return torch.add(3 * a, 1)
