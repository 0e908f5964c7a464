"""A target in float32 whose tolerance refuses float32.

Question    Is a tolerance noticed that float32 cannot meet?
Numbers     c = a b in float32 by the library.
Prediction  None.
Limits      None.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 37})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in "ab"}


@bench.reference(tolerance=Tolerance(1e-9, reason="none that would hold"))
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n**2, bytes_written=4 * n**2, flops=2 * n**3)


@bench.baseline(device="cpu", kind="naive")
def product(a, b):
    return a @ b
