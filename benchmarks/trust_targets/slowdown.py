"""A known slowdown: the same code under three names, and once more with a little more of the same work.

Workload   b = MIDDLE - a over n whole numbers in float32, which is exact. Its cost is that; the loop is ballast to
           time.
Baseline   Each element is reflected, x -> MIDDLE - x, an odd number of times. Every two reflections cancel.
Variants   `same_a`, `same_b`: the baseline's code. Whatever differs from it is the machine's or the harness's doing.
           `slower`: a fiftieth (cuda) or a twentieth (cpu) more rounds of reflections, so the same answer, later.
Breaks     A GPU with fewer multiprocessors than the size is made for runs it in more than one wave, and for longer.
"""

# A benchmark says what there is to say in the docstring of its file.
# ruff: noqa: D101, D102, D103

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device", threads=1)
device_code = cuda_source("slowdown.cu")
host_code = host_source("slowdown.c")

# Sums and differences of whole numbers below 2^24 are exact in float32.
MIDDLE = 1 << 20
# A factor that the compiler does not see, so that it cannot find out what two reflections are.
SIGN = -1.0
THREADS = 256
SAME = "no difference: the baseline's own code, for comparisons whose answer is known"


# cuda: eight blocks of 256 threads fill each of an H200's 132 multiprocessors, all of them in one wave.
@bench.workload(
    smoke={"n": 67, "rounds": 100}, cpu={"n": 64, "rounds": 500}, cuda={"n": 132 * 8 * THREADS, "rounds": 200}
)
def inputs(n, device, generator):
    return {"a": torch.randint(MIDDLE, (n,), device=device, generator=generator).float()}


@bench.reference(tolerance=exact)
def reference(a):
    return MIDDLE - a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


# Decorators apply from the last to the first, which is the order of the rows.
@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="plain")
@bench.variant(device="cuda", requires="sm_80", name="same_b", why=SAME)
@bench.variant(device="cuda", requires="sm_80", name="same_a", why=SAME)
class Kernel:
    more = 0.0

    def prepare(self, a, rounds):
        self.out = torch.empty_like(a)
        self.kernel = device_code.kernel("reflect")
        self.rounds = round(rounds * (1 + self.more))

    def run(self, a):
        self.kernel(a, self.out, a.numel(), self.rounds, SIGN, MIDDLE, grid=-(-a.numel() // THREADS), block=THREADS)
        return self.out


@bench.variant(device="cuda", requires="sm_80", name="slower", why="a fiftieth more reflections, which must be found")
class SlowerKernel(Kernel):
    more = 0.02


@bench.baseline(device="cpu", requires="compiler", kind="reasonable", name="plain")
@bench.variant(device="cpu", requires="compiler", name="same_b", why=SAME)
@bench.variant(device="cpu", requires="compiler", name="same_a", why=SAME)
class Loop:
    more = 0.0

    def prepare(self, a, rounds):
        self.out = torch.empty_like(a)
        self.loop = host_code.function("reflect")
        self.rounds = round(rounds * (1 + self.more))

    def run(self, a):
        self.loop(a, self.out, a.numel(), self.rounds, SIGN, MIDDLE)
        return self.out


@bench.variant(
    device="cpu", requires="compiler", name="slower", why="a twentieth more reflections, which must be found"
)
class SlowerLoop(Loop):
    more = 0.05
