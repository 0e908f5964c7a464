"""Allocation: memory that is given back after a step is paid for again in the next.

Workload   Steps over the first rows of a matrix of float16, a different number in each. A step scales them, clips them
           at zero and adds the result to a total, which takes two temporary matrices.
Baseline   The memory of the temporaries goes back to the system after every step, as `empty_cache()` in a training loop
           does on a GPU, and `malloc_trim` on a CPU. The next step asks for it again: a device allocation, or new pages
           that the kernel of the system must clear.
Variants   `cached`: the allocator keeps freed memory.  `preallocated`: two buffers for the largest step, of which each
           step takes a view.  `in_place`: one buffer, which each operation overwrites.  `graph` (cuda): one launch for
           the steps of `preallocated`, the floor of the others.
Breaks     Steps that take far longer than an allocation. Kept memory is missing elsewhere: a cache of blocks of many
           sizes fragments, and one buffer for the largest step is large for all steps. The tests count allocations:
           `given_back` allocates in every step, the variants in none.
"""

import ctypes

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.graphs import graphed

bench = Benchmark(goal="latency", clock="wall")
both, cuda, cpu = (bench.on(device) for device in (("cpu", "cuda"), "cuda", "cpu"))

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


# A single element; primes.
bench.awkward({"steps": 1, "rows": 1, "columns": 1}, {"steps": 37, "rows": 101, "columns": 53})
cuda.reach(of="time:graph", at_most=1.1, implementation="preallocated")


def lengths(steps, rows):
    """How many rows each step has: all multiples of a 32nd, in an order without a trend; the last step has all rows."""
    return [max(1, rows * ((STRIDE * (steps - 1 - number)) % LENGTHS or LENGTHS) // LENGTHS) for number in range(steps)]


def factor(number):
    """What a step scales by; both signs, so that every element counts."""
    return (-1) ** number / (1 + number)


class Steps:
    """The parts of a call, made once: of each step the rows of x and of the total, and the scale."""

    def prepare(self, x, steps):
        self.total = torch.empty_like(x)
        self.steps = [
            (x[:length], self.total[:length], factor(number)) for number, length in enumerate(lengths(steps, len(x)))
        ]


class Allocating(Steps):
    """Steps whose temporaries are new each time."""

    def run(self):
        self.total.zero_()
        for x, total, scale in self.steps:
            scaled = x * scale
            clipped = torch.relu(scaled)
            total.add_(clipped)
            del scaled, clipped
            self.give_back()
        return self.total

    def give_back(self):
        """Called after each step."""


@cuda.baseline(kind="antipattern", name="given_back")
class GivenBackByDriver(Allocating):
    def prepare(self, x, steps):
        # Else the total may lie in a larger block that was freed before, whose rest no step could give back.
        torch.cuda.empty_cache()
        super().prepare(x, steps)

    def give_back(self):
        torch.cuda.empty_cache()


@cpu.baseline(kind="antipattern", name="given_back")
class GivenBackByMalloc(Allocating):
    def prepare(self, x, steps):
        super().prepare(x, steps)
        libc = ctypes.CDLL(None)
        if not hasattr(libc, "malloc_trim"):
            raise SkipError("needs malloc_trim, which this machine's C library (not glibc) lacks")
        self.trim = libc.malloc_trim

    def give_back(self):
        self.trim(0)


@both.variant(
    adds="caching allocator",
    why="a freed block waits for the next tensor of its size, without the driver or the kernel of the system",
)
class Cached(Allocating):
    pass


@both.variant(
    builds_on="cached",
    adds="preallocation",
    why="no step allocates, and each finds the same pages and cache lines as the step before",
)
class Preallocated(Steps):
    def prepare(self, x, steps):
        super().prepare(x, steps)
        buffers = torch.empty_like(x), torch.empty_like(x)
        self.views = [[buffer[: len(step[0])] for buffer in buffers] for step in self.steps]

    def run(self):
        self.total.zero_()
        for (x, total, scale), (scaled, clipped) in zip(self.steps, self.views, strict=True):
            total.add_(torch.clamp(torch.mul(x, scale, out=scaled), min=0, out=clipped))
        return self.total


@both.variant(
    builds_on="preallocated",
    adds="in-place operation",
    why="half the temporary memory: the second operation overwrites the values that it has just read",
)
class InPlace(Preallocated):
    def run(self):
        self.total.zero_()
        for (x, total, scale), (scaled, _) in zip(self.steps, self.views, strict=True):
            total.add_(torch.mul(x, scale, out=scaled).relu_())
        return self.total


cuda.variant(
    graphed("preallocated"),
    name="graph",
    builds_on="preallocated",
    adds="graph",
    why="the host launches one graph instead of every kernel",
)
