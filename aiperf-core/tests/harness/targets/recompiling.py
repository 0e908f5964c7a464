"""A variant of which every fifth call is slow, as a call is in which a compiler is at work again."""

import time

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm", threads=1)
EVERY, COMPILING_S = 5, 0.02


@bench.workload(smoke={"n": 61}, state="tick")
def inputs(n, device, generator):
    return {
        "a": torch.randn(n, device=device, generator=generator),
        "tick": torch.randn(1, device=device, generator=generator),
    }


@bench.reference(tolerance=exact)
def reference(a):
    return a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def copied(a):
    time.sleep(0.001)
    return a.clone()


@bench.variant(device="cpu", why="compiles again in some calls")
class Recompiles:
    def prepare(self):
        self.calls = 0

    def run(self, a):
        self.calls += 1
        time.sleep(COMPILING_S if self.calls % EVERY == 0 else 0.001)
        return a.clone()
