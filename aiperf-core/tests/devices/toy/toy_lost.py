"""Doubling on a device that is never here.

Workload   b = 2a.
Baseline   The multiplication.
Variants   None.
Breaks     Everywhere.
"""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 8})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return 2 * a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="gone", kind="naive")
def doubled(a):
    return 2 * a
