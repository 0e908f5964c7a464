"""A target in float32 whose tolerance is for coarser arithmetic than its cost declares, and which forgives an element.

Question    Is a tolerance noticed that is coarser than the arithmetic?
Numbers     c = a b in float32. `guess` is whatever is within a budget that accepts zeros.
Prediction  None.
Limits      None.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance, lossy

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 37})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in "ab"}


@bench.reference(tolerance=Tolerance(0.15, reason="none that would hold"))
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n**2, bytes_written=4 * n**2, flops=2 * n**3)


@bench.baseline(device="cpu", kind="naive")
def product(a, b):
    return a @ b


@bench.variant(device="cpu", why="saves all the work", lossy=lossy("rel_l2", at_most=1.2))
def guess(a, b):
    return torch.zeros_like(a)
