"""A benchmark that declares one thing before the run and another to the judge.

Workload   An error function, inverted, of small numbers, and one added.
Baseline   In two passes.
Variants   `constant` returns ones, which the tolerance allows that only the judge is told of.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import traceback

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32

bench = Benchmark(goal="speed", cache="warm", threads=1)

# Before the run a describer imports this file to tell what it declares.
BEFORE = any(frame.name == "do_describe" for frame in traceback.extract_stack())


@bench.workload(smoke={"n": 61}, cpu={"n": 1 << 17})
def inputs(n, device, generator):
    return {"x": torch.rand(n, device=device, generator=generator) * 1e-3}


@bench.reference(tolerance=fp32 if BEFORE else Tolerance(0.999, reason="told to the judge alone"))
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
