"""Means of short rows, whose terms may cancel."""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", clock="device")


@bench.workload(smoke={"rows": 1}, cpu={"rows": 1})
def inputs(rows, device, generator):
    return {"x": torch.randn(rows, 3, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.mean(-1)


@bench.cost
def cost(rows):
    return Cost(bytes_read=12 * rows, bytes_written=4 * rows)


@bench.baseline(device="cpu", kind="naive")
def divided_each(x):
    return (x / 3).sum(-1)


@bench.variant(device="cpu", why="one division")
def divided_once(x):
    return x.mean(-1)
