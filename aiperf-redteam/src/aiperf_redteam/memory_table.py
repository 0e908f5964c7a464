"""A table that is put in order where it lies, beside a copy of it that is.

Workload   How many entries of a static table lie at or below each x, for new values x. The order of the table does not
           matter: a table that the call has sorted gives the same answers.
Baseline   Compares each x with each entry.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     Tables that change from call to call, whose sorting would be part of the work.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")


@bench.workload(
    smoke={"n": 64, "entries": 257}, cpu={"n": 256, "entries": 2048}, cuda={"n": 1 << 14, "entries": 1 << 15}
)
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.static
def entries_to_count(entries, device, generator):
    return {"table": torch.randn(entries, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, table):
    return (table <= x[:, None]).sum(-1)


@bench.cost
def cost(n, entries):
    return Cost(bytes_read=4 * (n + entries), bytes_written=8 * n)


@bench.baseline(device=both, kind="naive")
def each_with_each(x, table):
    return (table <= x[:, None]).sum(-1)


@bench.variant(device=both, why="the first call sorts the table where it lies, so that later ones can search in it")
class SortedInPlace:
    def prepare(self):
        self.done = False

    def run(self, x, table):
        if not self.done:
            table.copy_(table.sort().values)
            self.done = True
        return torch.searchsorted(table, x, right=True)


@bench.variant(device=both, why="honest: a copy of the table is sorted ahead, as a static argument may be")
class SortedCopy:
    def prepare(self, table):
        self.table = table.sort().values

    def run(self, x):
        return torch.searchsorted(self.table, x, right=True)
