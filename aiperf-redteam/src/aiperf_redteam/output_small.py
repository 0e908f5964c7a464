"""A bad benchmark: its answers are so small that zeros lie within what a variant may lose.

Workload   y = softmax(x @ w) over long rows, whose elements are near 1 / columns.
Baseline   The library's functions.
Variants   `zeros`: declared lossy, within an absolute budget that a relative one would not have given it.
Breaks     `aiperf lint` refuses the budget.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction, lossy

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")


@bench.workload(
    smoke={"rows": 3, "n": 16, "columns": 512},
    cpu={"rows": 16, "n": 512, "columns": 2048},
    cuda={"rows": 2048, "n": 2048, "columns": 4096},
)
def inputs(rows, n, device, generator):
    return {"x": torch.randn(rows, n, device=device, generator=generator)}


@bench.static
def weight(n, columns, device, generator):
    return {"w": torch.randn(n, columns, device=device, generator=generator) * n**-0.5}


@bench.reference(tolerance=fp32_reduction)
def reference(x, w):
    return torch.softmax(x @ w, -1)


@bench.cost
def cost(rows, n, columns):
    return Cost(bytes_read=4 * (rows + columns) * n, bytes_written=4 * rows * columns, flops=2 * rows * n * columns)


@bench.baseline(device=both, kind="reasonable")
def library(x, w):
    return torch.softmax(x @ w, -1)


@bench.variant(device=both, why="no element is larger than what may be lost", lossy=lossy("max_abs_error", at_most=0.1))
def zeros(x, w):
    return torch.zeros(len(x), w.shape[1], device=x.device)
