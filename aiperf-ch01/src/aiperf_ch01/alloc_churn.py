"""Allocation: memory that is given back after a step is paid for again in the next.

Workload   Steps over the first rows of a matrix of float16, a different number in each. A step scales them, clips them
           at zero and adds the result to a total, which takes two temporary matrices.
Baseline   The temporaries' memory goes back to the system after every step, as `empty_cache()` in a training loop does
           on a GPU, and `malloc_trim` on a CPU. The next step asks for it again: a device allocation, or new pages that
           the kernel must clear.
Variants   `cached`: the allocator keeps what is freed.  `preallocated`: two buffers for the largest step, of which each
           step takes a view.  `in_place`: one buffer, which each operation overwrites.  `graph` (cuda): the steps of
           `preallocated` in one launch, the floor of what is left.
Breaks     Steps that take far longer than an allocation. Memory that is kept is missing elsewhere: a cache of blocks of
           many sizes fragments, and one buffer for the largest step is large for all.
"""

import ctypes

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.graphs import captured

bench = Benchmark(goal="latency", clock="wall")

LENGTHS = 32
STRIDE = 19  # has no factor in common with 32, so that all lengths come


@bench.workload(
    smoke={"steps": 7, "rows": 37, "columns": 13},
    cpu={"steps": 40, "rows": 1024, "columns": 2048},
    cuda={"steps": 200, "rows": 4096, "columns": 4096},
)
def inputs(rows, columns, device, generator):
    return {"x": torch.randn(rows, columns, device=device, generator=generator).half()}


@bench.reference(tolerance=exact)
def reference(x, steps):
    total = torch.zeros_like(x)
    for number, length in enumerate(lengths(steps, len(x))):
        total[:length] += torch.relu(x[:length] * factor(number))
    return total


@bench.cost
def cost(steps, rows, columns):
    touched = sum(lengths(steps, rows)) * columns
    return Cost(bytes_read=2 * rows * columns, bytes_written=2 * rows * columns, flops=3 * touched, precision="fp16")


def lengths(steps, rows):
    """How many rows each step has: all multiples of a 32nd, in an order without a trend; the last step has all rows."""
    return [max(1, rows * ((STRIDE * (steps - 1 - number)) % LENGTHS or LENGTHS) // LENGTHS) for number in range(steps)]


def factor(number):
    """What a step scales by; both signs, so that every element counts."""
    return (-1) ** number / (1 + number)


class Allocating:
    """Steps whose temporaries are new each time."""

    def prepare(self, x, steps):
        self.total = torch.empty_like(x)
        self.steps = [(length, factor(number)) for number, length in enumerate(lengths(steps, len(x)))]

    def run(self, x):
        self.total.zero_()
        for length, scale in self.steps:
            scaled = x[:length] * scale
            clipped = torch.relu(scaled)
            self.total[:length] += clipped
            del scaled, clipped
            self.give_back()
        return self.total

    def give_back(self):
        """Called after each step."""


@bench.baseline(device="cuda", kind="antipattern", name="given_back")
class GivenBackByDriver(Allocating):
    def give_back(self):
        torch.cuda.empty_cache()


@bench.baseline(device="cpu", kind="antipattern", name="given_back")
class GivenBackByMalloc(Allocating):
    def prepare(self, x, steps):
        super().prepare(x, steps)
        libc = ctypes.CDLL(None)
        if not hasattr(libc, "malloc_trim"):
            raise SkipError("needs malloc_trim, which this machine's C library (not glibc) lacks")
        self.trim = libc.malloc_trim

    def give_back(self):
        self.trim(0)


@bench.variant(
    device=("cpu", "cuda"),
    why="a freed block waits for the next tensor of its size, without the driver or the kernel of the system",
)
class Cached(Allocating):
    pass


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="cached",
    why="nothing is asked for in a step, and it finds the same pages and cache lines as the one before",
)
class Preallocated:
    def prepare(self, x, steps):
        self.total, self.scaled, self.clipped = (torch.empty_like(x) for _ in range(3))
        self.steps = [(length, factor(number)) for number, length in enumerate(lengths(steps, len(x)))]

    def run(self, x):
        self.total.zero_()
        for length, scale in self.steps:
            scaled = torch.mul(x[:length], scale, out=self.scaled[:length])
            self.total[:length] += torch.clamp(scaled, min=0, out=self.clipped[:length])
        return self.total


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="preallocated",
    why="half the temporary memory: what the second operation writes is what it has just read",
)
class InPlace(Preallocated):
    def run(self, x):
        self.total.zero_()
        for length, scale in self.steps:
            self.total[:length] += torch.mul(x[:length], scale, out=self.scaled[:length]).relu_()
        return self.total


@bench.variant(device="cuda", builds_on="preallocated", why="no launches either: the same kernels, sent as one graph")
class Graph:
    def prepare(self, x, steps):
        preallocated = Preallocated()
        preallocated.prepare(x, steps)
        self.steps = captured(preallocated.run, x)

    def run(self):
        return self.steps.replay()
