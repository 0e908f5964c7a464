"""Allocation: memory that is given back after a step is paid for again in the next.

Question    What does a step pay for temporary memory that it gives back to the system, and what is left to gain where
            an allocator keeps it?
Numbers     200 steps over the first rows of a float16 matrix of 8192 x 4096, a different number in each: scale, clip at
            zero, add to a total. Two temporary matrices a step, three kernels of some 20 us.
Prediction  A device allocation waits for the GPU and maps pages, some 100 us each: 40 ms of 200 steps. An allocator
            that keeps freed blocks removes all of it; preallocation then has nothing left to gain.
Limits      Steps that take far longer than an allocation. A caching allocator holds memory that nothing else can use,
            and it fragments when sizes vary. One preallocated buffer must be as large as the largest step.
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
    cuda={"steps": 200, "rows": 8192, "columns": 4096},
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
# Kernels of 20 us hide their launches; between two of a stream, 1 to 2 us are left that a graph shortens.
cuda.reach(of="time:graph", at_most=1.15, implementation="cached")


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
    why="no step asks the allocator, and each finds the same addresses as the step before",
    teaches="the caching allocator hands out a kept block in less time than a kernel takes: it is the whole gain",
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
    why="half the temporary memory: the second operation overwrites the values that it has just read, in the cache",
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
    why="the host launches one graph instead of every kernel: the floor of the steps without allocations",
)
