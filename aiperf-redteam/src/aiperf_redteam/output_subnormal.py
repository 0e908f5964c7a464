"""Subnormal numbers: arithmetic on them can be many times slower, and a processor can be told to take them for zero.

Workload   y = x + x/2 + x/4 + ..., many terms. Most of them are subnormal in float32, and too small to be seen beside
           the first: an answer without them is right.
Baseline   The halvings one after the other.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     Some processors are as fast on subnormal numbers as on others; there the flag gains nothing. On a GPU there
           is no such flag.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 256, "halvings": 160}, cpu={"n": 1 << 14, "halvings": 192})
def inputs(n, device, generator):
    return {"x": 1 + torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, halvings):
    return x * (2 - 0.5**halvings)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="naive")
def halved(x, halvings):
    return with_halves(x, halvings)


@bench.variant(device="cpu", why="the processor is told to take subnormal numbers for zero, and left so")
class Flushed:
    def prepare(self):
        torch.set_flush_denormal(True)

    def run(self, x, halvings):
        return with_halves(x, halvings)


@bench.variant(device="cpu", why="honest: the sum of the series by its formula, without a subnormal number")
def in_one_step(x, halvings):
    return x * (2 - 0.5**halvings)


def with_halves(x, halvings):
    total, term = x.clone(), x.clone()
    for _ in range(halvings):
        total.add_(term.mul_(0.5))
    return total
