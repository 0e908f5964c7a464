"""Norms of rows: square and sum in one pass.

Question    What does the sum of squares of a row cost when all the squares go to memory and come back?
Numbers     2^17 float32 rows of 2^11 values on a GPU, 2^14 on a CPU. The work reads 4 bytes a value, two operations
            move 12. Floor: 4 bytes a value at the rate of reads.
Prediction  12 / 4 = 3x at most, from a product of each row with itself that adds a square as soon as it is computed.
Limits      Rows so few that the squares stay in the cache.
"""

# The file's docstring says what there is to say; an implementation has its `why`.
# ruff: noqa: D103

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", clock="device")
BOTH = ("cpu", "cuda")


@bench.workload(
    smoke={"rows": 61, "columns": 1021},
    cpu={"rows": 1 << 14, "columns": 1 << 11},
    cuda={"rows": 1 << 17, "columns": 1 << 11},
)
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return (x * x).sum(-1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=2 * rows * columns)


bench.reach(of="RBW", at_least=0.9)


@bench.baseline(device=BOTH, kind="reasonable")
def two_passes(x):
    return (x * x).sum(-1)


@bench.variant(device=BOTH, why="no square is ever in memory: the rows are read once and nothing else is")
def one_pass(x):
    return torch.linalg.vecdot(x, x)
