"""A bad benchmark: most of its data is padding, so that leaving most of the work out is right.

Workload   y = x @ w, where all but the first eighth of the columns of x are zero, whatever the seed.
Baseline   The library's product.
Variants   `without_padding`: an eighth of the sums. Nothing in the workload says that it may.
Breaks     `aiperf lint` finds that a part of the inputs does not matter.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")


@bench.workload(smoke={"rows": 4, "n": 64}, cpu={"rows": 64, "n": 512}, cuda={"rows": 2048, "n": 2048})
def inputs(rows, n, device, generator):
    x = torch.zeros(rows, n, device=device)
    x[:, : n // 8] = torch.randn(rows, n // 8, device=device, generator=generator)
    return {"x": x}


@bench.static
def weight(n, device, generator):
    return {"w": torch.randn(n, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, w):
    return x @ w


@bench.cost
def cost(rows, n):
    return Cost(bytes_read=4 * n * (rows + n), bytes_written=4 * rows * n, flops=2 * rows * n * n)


@bench.baseline(device=both, kind="reasonable")
def product(x, w):
    return x @ w


@bench.variant(device=both, why="the rest of the columns have been zero as often as anybody looked")
def without_padding(x, w):
    some = len(w) // 8
    return x[:, :some] @ w[:some]
