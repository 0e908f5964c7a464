"""Arithmetic that takes as long as it is told: the target whose source a slowdown is injected into.

Workload   b = MIDDLE - a over n whole numbers in float32, which is exact. The loop is ballast to time.
Baseline   Each element is reflected, x -> MIDDLE - x, an odd number of times. Every two reflections cancel.
Variants   `steady`: the same code, with MORE of the reflections. MORE is 0; the benchmark of the gate sets another.
Breaks     Nothing but processor time counts: 64 numbers stay in registers.
"""

# A benchmark says what there is to say in the docstring of its file.
# ruff: noqa: D101, D102, D103

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed", clock="device", threads=1)
host_code = host_source("reflect.c")

# Sums and differences of whole numbers below 2^24 are exact in float32.
MIDDLE = 1 << 20
# A factor that the compiler does not see, so that it cannot find out what two reflections are.
SIGN = -1.0
MORE = 0.0


@bench.workload(smoke={"n": 67, "rounds": 100}, cpu={"n": 64, "rounds": 4000})
def inputs(n, device, generator):
    return {"a": torch.randint(MIDDLE, (n,), device=device, generator=generator).float()}


@bench.reference(tolerance=exact)
def reference(a):
    return MIDDLE - a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", requires="compiler", kind="reasonable")
class Plain:
    more = 0.0

    def prepare(self, a, rounds):
        self.out = torch.empty_like(a)
        self.loop = host_code.function("reflect")
        self.rounds = round(rounds * (1 + self.more))

    def run(self, a):
        self.loop(a, self.out, a.numel(), self.rounds, SIGN, MIDDLE)
        return self.out


@bench.variant(device="cpu", requires="compiler", why="the code that a change may make slower")
class Steady(Plain):
    more = MORE
