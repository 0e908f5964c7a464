"""Calls that are too short for the GPU's clock.

Workload   A sum over a few numbers, with state, so that each sample is one call.
Baseline   Sums them many times.
Variants   `once` sums them once, in little more time than recording two events takes.  `often` sums half as many times
           as the baseline.
Breaks     A processor reads its clock in far less time than a call of Python takes.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm")


@bench.workload(state="tick", smoke={"n": 3, "passes": 4}, cuda={"n": 3, "passes": 400})
def inputs(n, device, generator):
    return {
        "x": torch.rand(n, device=device, generator=generator),
        "tick": torch.rand(1, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum(0, keepdim=True)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4)


def summed(x, passes):
    for _ in range(passes - 1):
        x.sum()
    return x.sum(0, keepdim=True)


@bench.baseline(device="cuda", kind="antipattern")
def pass_by_pass(x, passes):
    return summed(x, passes)


@bench.variant(device="cuda", why="a call that takes little longer than recording two events")
def once(x):
    return x.sum(0, keepdim=True)


@bench.variant(device="cuda", why="honest: half of the passes, which take long beside recording two events")
def often(x, passes):
    return summed(x, passes // 2)
