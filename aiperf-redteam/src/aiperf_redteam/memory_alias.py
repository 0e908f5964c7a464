"""An output that lies in the memory of an input, beside one that lies in a larger buffer of its own.

Workload   Every second row of x, in memory of its own: the values stand in the input, and to copy them is the work.
Baseline   Copies them to new memory.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     Where a view is all that is asked for, nothing has to be copied; the reference says that it is not.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")


@bench.workload(
    smoke={"rows": 64, "columns": 33}, cpu={"rows": 512, "columns": 512}, cuda={"rows": 1 << 18, "columns": 1024}
)
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x):
    return x[::2].clone()


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=2 * rows * columns, bytes_written=2 * rows * columns)


@bench.baseline(device=both, kind="reasonable")
def copied(x):
    return x[::2].clone()


@bench.variant(device=both, why="a view of the input has the right values, and nothing was copied")
def view_of_input(x):
    x[: len(x) // 64].clone()  # a time that events can tell
    return x[::2]


@bench.variant(device=both, why="honest: a view as well, of a larger buffer of its own into which the rows were copied")
class ViewOfOwnMemory:
    def prepare(self, x):
        self.memory = torch.empty_like(x)

    def run(self, x):
        rows = self.memory[: len(x) // 2]
        return rows.copy_(x[::2])
