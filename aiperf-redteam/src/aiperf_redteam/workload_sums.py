"""A sum that is kept in fewer bits than declared, beside one that is kept in other places.

Workload   y[i] = the sum over j of x[i, j] * w[j] in float64, for a static float32 matrix x and new
           float32 values w: products are exact, sums must be wide.
Baseline   Both operands are widened first.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     The budget is that of float64 sums: float32 ones are refused, whatever their order.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, Tolerance

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")

wide = Tolerance(1e-12, "sums of some thousand exact products in float64, in any order")


@bench.workload(smoke={"rows": 5, "n": 1024}, cpu={"rows": 96, "n": 4096}, cuda={"rows": 16384, "n": 8192})
def inputs(n, device, generator):
    return {"w": torch.randn(n, device=device, generator=generator)}


@bench.static
def matrix(rows, n, device, generator):
    return {"x": torch.randn(rows, n, device=device, generator=generator)}


@bench.reference(tolerance=wide)
def reference(x, w):
    return (x.double() * w.double()).sum(-1)


@bench.cost
def cost(rows, n):
    return Cost(bytes_read=4 * (rows + 1) * n, bytes_written=8 * rows, flops=2 * rows * n, precision="fp64")


@bench.baseline(device=both, kind="naive")
def widened(x, w):
    return (x.double() * w.double()).sum(-1)


@bench.variant(device=both, why="sums in float32, widened when they are done")
def narrow_sum(x, w):
    return (x @ w).double()


@bench.variant(device=both, why="honest: the sums of parts, then their sum, all in float64")
def in_parts(x, w):
    parts = x.double().mul_(w.double()).view(len(x), -1, 64)
    return parts.sum(-1).sum(-1)
