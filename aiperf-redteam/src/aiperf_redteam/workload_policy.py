"""A switch of the process that changes the precision of all products, beside code that puts it back.

Workload   c = a @ b, declared in float32, under a tolerance so wide that TF32 passes: a mistake that is made, and the
           only case in which the switch gains anything that the comparison does not show.
Baseline   The library's product as the process finds it.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     Most processors have no TF32; there the switch gains nothing and is told of all the same. `aiperf lint`
           refuses the tolerance.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, tf32

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")


@bench.workload(smoke={"n": 32}, cpu={"n": 128}, cuda={"n": 4096})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in ("a", "b")}


@bench.reference(tolerance=tf32)
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3)


@bench.baseline(device=both, kind="reasonable")
def as_found(a, b):
    return a @ b


@bench.variant(device=both, why="products may be taken in TF32 from now on, and nobody was asked")
class Switched:
    def prepare(self):
        torch.set_float32_matmul_precision("high")

    def run(self, a, b):
        return a @ b


@bench.variant(device=both, why="honest: a switch for one product, which is put back")
def switched_back(a, b):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return a @ b
    finally:
        torch.set_float32_matmul_precision(before)
