"""A bad benchmark: its own answers are not numbers, so that none is right.

Workload   y = the square root of digamma(x), for values below the function's zero: there the root does not exist.
Baseline   The library's functions.
Variants   `nowhere`: NaN, which is what the reference says.
Breaks     `aiperf lint` refuses a reference that is not finite.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 1009}, cpu={"n": 1 << 15})
def inputs(n, device, generator):
    return {"x": 0.25 + torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return torch.digamma(x).sqrt()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * n)


@bench.baseline(device="cpu", kind="reasonable")
def library(x):
    return torch.digamma(x).sqrt()


@bench.variant(device="cpu", why="no number is right, and none is needed")
def nowhere(x):
    return torch.full_like(x, torch.nan)
