"""Calls so short that several make a sample: only the first of them works, beside code that only prepares in its first.

Workload   c = a @ a in float32. A call takes some microseconds, and a sample of so short
           calls repeats them on the same values.
Baseline   The library's product.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     A call that is long enough for the clock is timed by itself, and its result cannot be reused.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 16}, cpu={"n": 48})
def inputs(n, device, generator):
    return {"a": torch.randn(n, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(a):
    return a @ a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n * n, bytes_written=4 * n * n, flops=2 * n**3)


@bench.baseline(device="cpu", kind="reasonable")
def each_call(a):
    return a @ a


@bench.variant(device="cpu", why="one value that has not changed since the last call, so the same answer")
class FirstOfSample:
    def prepare(self, a):
        self.values = a.numpy()
        self.first = None

    def run(self, a):
        first = self.values.item(0)
        if first != self.first:
            self.first, self.kept = first, a @ a
        return self.kept


@bench.variant(device="cpu", why="honest: the first call makes room, and every call does the work")
class RoomAtFirst:
    def prepare(self):
        self.room = None

    def run(self, a):
        if self.room is None:
            self.room = torch.empty_like(a)
        return torch.mm(a, a, out=self.room)
