"""An expensive function of each element: the value that it is looked up for can be narrowed, and so can the result.

Workload   y = digamma(x) in float32, for values beyond the function's zero.
Baseline   The library's function.
Variants   First the code that commits an issue, then its honest look-alike.
Breaks     On a GPU the function costs no more than the memory that it reads and writes; these run on the processor
           only.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 1009}, cpu={"n": 1 << 15})
def inputs(n, device, generator):
    return {"x": 2 + 6 * torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return torch.digamma(x)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def library(x):
    return torch.digamma(x)


# --- lower precision under a higher one's name


@bench.variant(
    device="cpu", why="the operand is rounded to half precision, of which there are few enough values for a table"
)
class TableOfHalves:
    def prepare(self):
        self.table = torch.digamma(every_half().float())

    def run(self, x):
        return self.table[bits(x.half())]


@bench.variant(device="cpu", why="honest: another formula in the same precision, which rounds otherwise")
def recurrence(x):
    return torch.digamma(x + 1).sub_(x.reciprocal())


# --- an output of another dtype


@bench.variant(device="cpu", why="the operand and the result in half precision, from a table")
class HalvesFromTable:
    def prepare(self):
        self.table = torch.digamma(every_half().float()).half()

    def run(self, x):
        return self.table[bits(x.half())]


@bench.variant(device="cpu", why="honest: float64 on the way, and the dtype that was asked for in the end")
def through_float64(x):
    return torch.digamma(x.double()).float()


def every_half():
    """All positive values of half precision, in the order of their bits; the last are infinity and NaN."""
    return torch.arange(1 << 15).to(torch.int16).view(torch.half)


def bits(halves):
    return halves.view(torch.int16).int()
