"""Sums of rows: every element is read once, so the memory's bandwidth is the limit.

Question    How near to the memory's bandwidth does a sum of each row come?
Numbers     y[i] = the sum of x[i, :], float32: 1024 x 4096 is 16.8 MB in and 4 kB out, on a GPU 16384 x 8192 is 537 MB
            in and 66 kB out: one addition for 4 bytes. Rows have both signs and mostly cancel; some begin with zeros,
            and some have one large element late: a sum over part of a row, or an estimate from its beginning, is wrong.
Prediction  Nothing below the time of the read. An output of 4 bytes a row gains nothing from memory that is kept.
Limits      The budget admits float32 sums in any order, one after the other too; it admits no narrower type on the way.
            A matrix that stays in the last-level cache is read at the rate of that cache.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", clock="device")

SPIKE = 64.0


@bench.workload(
    smoke={"rows": 13, "columns": 1021},
    cpu={"rows": 1024, "columns": 4096},
    cuda={"rows": 16384, "columns": 8192},
)
def inputs(rows, columns, device, generator):
    x = torch.randn(rows, columns, device=device, generator=generator)
    begins_late = one_in_eight(rows, device, generator)
    x[:, : columns // 2].masked_fill_(begins_late, 0.0)
    place = torch.randint(columns - columns // 4 - 1, columns, (rows, 1), device=device, generator=generator)
    spikes = one_in_eight(rows, device, generator) * SPIKE
    x.scatter_add_(1, place, spikes)
    return {"x": x}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum(-1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=rows * (columns - 1))


bench.reach(of="RBW", at_least=0.9)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def library(x):
    return x.sum(-1)


@bench.variant(device=("cpu", "cuda"), why="the result's memory is allocated once, not in every call")
class KeptOutput:
    def prepare(self, x):
        self.out = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)

    def run(self, x):
        return torch.sum(x, -1, out=self.out)


def one_in_eight(rows, device, generator):
    """A column of booleans: about an eighth of the rows at random, at least one."""
    draw = torch.rand(rows, 1, device=device, generator=generator)
    return (draw < 0.125) | (draw == draw.min())
