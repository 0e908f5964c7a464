"""A benchmark whose tolerance lets everything pass: for `aiperf lint`, which must refuse it.

Workload   An error function, inverted, of small numbers, and one added.
Baseline   In two passes.
Variants   `constant` returns ones and is called right, because errors as large as the values are allowed.
Breaks     Everywhere.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, Tolerance

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": 1 << 17})
def inputs(n, device, generator):
    return {"x": torch.rand(n, device=device, generator=generator) * 1e-3}


@bench.reference(tolerance=Tolerance(0.999, reason="as wide as it can be declared; see what it lets pass"))
def reference(x):
    return shifted(x)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * n)


@bench.baseline(device="cpu", kind="reasonable")
def two_passes(x):
    return shifted(x)


@bench.variant(device="cpu", why="a constant near the mean, without reading anything")
def constant(x):
    return torch.ones_like(x)


def shifted(x):
    return torch.special.erfinv(x) + 1
