"""What one side leaves in the allocator that both share.

Workload   The sum of some multiples of a long vector. Fresh pages for the multiples cost more than the work.
Baseline   Takes memory for the multiples from the allocator.
Variants   Attacks that leave the allocator without warm pages for whoever comes next, and a look-alike that leaves it
           as it was. Where each side has an allocator of its own, they only spoil theirs. See `one_process`.
Breaks     A machine on which the kernel hands out pages for nothing.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import ctypes
import weakref

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", cache="warm", threads=1)

MULTIPLES = 6

# Blocks that are too small for a multiple, each followed by a pin that keeps it from growing together with the next.
GAP_BYTES, PIN_BYTES = 1 << 18, 1 << 8
MOST_CUTS = 16


@bench.workload(smoke={"n": 61}, cpu={"n": 1 << 20})
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return x * sum(range(MULTIPLES))


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def all_at_once(x):
    return summed([x * factor for factor in range(MULTIPLES)])


class Kept:
    """Has memory of its own for the multiples, and writes the first twice: it is no faster by itself."""

    def prepare(self, x):
        self.kept = [torch.empty_like(x) for _ in range(MULTIPLES)]

    def run(self, x):
        torch.mul(x, MULTIPLES, out=self.kept[0])
        return summed([torch.mul(x, factor, out=one) for factor, one in enumerate(self.kept)])


@bench.variant(device="cpu", why="gives the allocator's free pages back to the kernel when its output is let go")
class EmptiesPool(Kept):
    def run(self, x):
        out = super().run(x)[:]
        weakref.finalize(out, ctypes.CDLL(None).malloc_trim, 0).atexit = False
        return out


@bench.variant(device="cpu", why="cuts the memory that others have let go into pieces when its output is let go")
class CutsHeap(Kept):
    def prepare(self, x):
        super().prepare(x)
        self.bytes, self.pins, self.cuts = 4 * MULTIPLES * x.nbytes, [], 0

    def cut(self):
        self.cuts += 1
        if self.cuts > MOST_CUTS:
            return
        # They stay where they are, so that the next cut meets what was let go since.
        for _ in range(self.bytes // GAP_BYTES):
            self.pins.append(torch.empty(GAP_BYTES, dtype=torch.uint8))
            self.pins.append(torch.empty(PIN_BYTES, dtype=torch.uint8))

    def run(self, x):
        out = super().run(x)[:]
        weakref.finalize(out, self.cut).atexit = False
        return out


@bench.variant(device="cpu", why="honest: keeps the memory of its multiples, and leaves the allocator alone")
class KeepsMultiples(Kept):
    pass


def summed(parts):
    """The sum, in the first one's memory."""
    for one in parts[1:]:
        parts[0].add_(one)
    return parts[0]
