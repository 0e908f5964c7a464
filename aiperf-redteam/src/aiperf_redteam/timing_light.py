"""Times below what the declared work can take.

Workload   The sum of a vector, declared with the additions of a baseline that sums it many times over: a mistake of the
           cost.
Baseline   Sums the vector as often as the cost says.
Variants   `once` and `to_a_number` sum it once. They are right, and faster than the declared work allows.  `often` is
           honest by the declared cost.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 61, "passes": 4}, cpu={"n": 1 << 14, "passes": 2000}, cuda={"n": 1 << 24, "passes": 200})
def inputs(n, device, generator):
    return {"x": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum(0, keepdim=True)


@bench.cost
def cost(n, passes):
    return Cost(bytes_read=4 * n, bytes_written=4, flops=n * passes, precision="fp32")


@bench.baseline(device=("cpu", "cuda"), kind="antipattern")
def pass_by_pass(x, passes):
    return summed(x, passes)


@bench.variant(device=("cpu", "cuda"), why="sums once what is counted many times")
def once(x):
    return x.sum(0, keepdim=True)


@bench.variant(device=("cpu", "cuda"), why="takes next to no time of what is counted, and would decide any average")
def to_a_number(x):
    return x.sum().view(1)


@bench.variant(device=("cpu", "cuda"), why="honest: sums nearly as often as the cost says")
def often(x, passes):
    return summed(x, passes - 1)


def summed(x, passes):
    for _ in range(passes - 1):
        x.sum()
    return x.sum(0, keepdim=True)
