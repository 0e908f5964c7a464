"""Softmax: each row is read for its maximum, for its sum and for its result; the fewer times from memory, the better.

Question    How often must a row come from memory, if each of its results needs its maximum and its sum?
Numbers     y[i, j] = exp(x[i, j]) / the sum of exp(x[i, :]), float32: 1024 x 2048 is 8.4 MB in and out, on a GPU
            16384 x 4096 is 268 MB. Three reads and a write are 16 bytes an element; a row of 8 or 16 kB that stays in
            the cache makes it 8. One row has an element late on which exp alone overflows, so the maximum of the whole
            row must be subtracted.
Prediction  At most 16 / 8 = 2x over three passes through memory. The library keeps a row in the cache, too, and memory
            that is kept for the result saves an allocation, not a byte of traffic.
Limits      Rows that no cache holds: a pass is then a trip to memory. Elements are near 1 / columns and the budget is
            relative to them: zeros, constants and half precision on the way are wrong. exp(x - logsumexp(x)) in float32
            is right.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="device")

SPIKE = 96.0  # exp(89) is beyond float32


@bench.workload(
    smoke={"rows": 13, "columns": 1021},
    cpu={"rows": 1024, "columns": 2048},
    cuda={"rows": 16384, "columns": 4096},
)
def inputs(rows, columns, device, generator):
    x = torch.randn(rows, columns, device=device, generator=generator)
    place = torch.randint(columns - columns // 4 - 1, columns, (1,), device=device, generator=generator)
    row = torch.randint(rows, (1,), device=device, generator=generator)
    x[row, place] = SPIKE
    return {"x": x}


@bench.reference(tolerance=fp32)
def reference(x):
    return torch.softmax(x, -1)


@bench.cost
def cost(rows, columns):
    # Of each element: a comparison, a subtraction, an exponential, an addition, a division.
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows * columns, flops=5 * rows * columns)


bench.reach(of="BW", at_least=0.9)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def library(x):
    return torch.softmax(x, -1)


@bench.variant(device=("cpu", "cuda"), why="the result's memory is allocated once, not in every call")
class KeptOutput:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.softmax(x, -1, out=self.out)
