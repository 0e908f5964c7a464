"""Softmax of a few rows on all processors, under three names: short calls of several threads, which load hits most.

Workload   y[i, j] = exp(x[i, j]) / the sum of exp(x[i, :]) in float32.
Baseline   torch.softmax.
Variants   `same_a`, `same_b`: the baseline's code. Whatever differs from it is the machine's or the harness's doing.
           `slower`: half of the rows a second time, so the same answer, later.
Breaks     More columns than a cache holds: then memory is what the threads share.
"""

# A benchmark says what there is to say in the docstring of its file.
# ruff: noqa: D103

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="wall")
SAME = "no difference: the baseline's own code, for comparisons whose answer is known"


@bench.workload(smoke={"rows": 13, "columns": 1021})
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return torch.softmax(x, -1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows * columns, flops=5 * rows * columns)


# Decorators apply from the last to the first, which is the order of the rows.
@bench.baseline(device="cpu", kind="reasonable", name="plain")
@bench.variant(device="cpu", name="same_b", why=SAME)
@bench.variant(device="cpu", name="same_a", why=SAME)
def softmax(x):
    return torch.softmax(x, -1)


@bench.variant(device="cpu", why="half of the rows a second time")
def slower(x):
    torch.softmax(x[: len(x) // 2], -1)
    return torch.softmax(x, -1)
