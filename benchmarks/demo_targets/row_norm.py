"""Rows of mean 0 and variance 1: one library call reads a row once, five operations read it five times.

Question    What does it cost to compose a normalization of small operations?
Numbers     y = (x - mean) / sqrt(variance + EPSILON) over rows of float32: one read and one write of 4 bytes an
            element are needed; the composition moves about four times that.
Prediction  `fused` is at least twice as fast as `composed`, and a copy of its input costs it about two moves of three.
Limits      Rows that stay in L2 are read again for little.
"""

# A benchmark says what there is to say in the docstring of its file.
# ruff: noqa: D103

import torch
from torch.nn.functional import layer_norm

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="device")

EPSILON = 1e-5
# The slip of a change: `demo_results.py` sets it for the later runs of a history.
COPIES_INPUT = False


@bench.workload(smoke={"rows": 13, "columns": 67}, cpu={"rows": 1024, "columns": 2048})
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return layer_norm(x, x.shape[-1:], eps=EPSILON)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows * columns, flops=5 * rows * columns)


@bench.baseline(device="cpu", kind="naive")
def composed(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPSILON).sqrt()


@bench.variant(device="cpu", why="mean, variance and result of a row are computed while it is in the cache")
def fused(x):
    if COPIES_INPUT:
        x = x.clone()
    return layer_norm(x, x.shape[-1:], eps=EPSILON)
