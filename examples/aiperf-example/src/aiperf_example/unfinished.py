"""Sums of rows of which the last are left out, beside honest code that looks like it.

Question    Is code refused that sums whole blocks of rows and forgets the rest, and code believed that does not?
Numbers     1,021 float32 rows in blocks of 512: one block is whole, and 509 rows are left. A value has 4 bytes.
Prediction  Half of the rows is half of the time, for a wrong answer; blocks and the rest read as much as all rows.
Limits      Where blocks divide the rows the two are the same.
"""

# The file's docstring says what there is to say; an implementation has its `why`.
# ruff: noqa: D103

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
BLOCK = 512


@bench.workload(smoke={"rows": 1021, "columns": 64}, cpu={"rows": 1021, "columns": 4096})
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum(-1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=rows * columns)


bench.reach(of="RBW", at_least=0.5, device="cpu")


@bench.baseline(device="cpu", kind="reasonable")
def all_rows(x):
    return x.sum(-1)


@bench.variant(device="cpu", why="rows beyond the last whole block are not computed")
def whole_blocks(x):
    whole = len(x) // BLOCK * BLOCK
    out = torch.zeros(len(x))
    torch.sum(x[:whole], -1, out=out[:whole])
    return out


@bench.variant(device="cpu", why="a block fits in the cache, and what is left over is a block of its own")
def blocks_and_rest(x):
    return torch.cat([block.sum(-1) for block in x.split(BLOCK)])
