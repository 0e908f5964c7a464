"""A program of many steps, whose host floor is that of the same steps on one element."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 1 << 18, "steps": 40}, floor={"n": 1}, state="total")
def inputs(n, device, generator):
    def whole():
        return torch.randint(0, 9, (n,), device=device, generator=generator)

    return {"a": whole(), "total": whole(), "first": int(whole()[0])}


@bench.static
def added(n, device, generator):
    return {"b": torch.randint(0, 9, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a, b, total, first, steps):
    return total + steps * (a + b) + first


@bench.cost
def cost(n):
    return Cost(bytes_read=24 * n, bytes_written=8 * n)


@bench.baseline(device="cpu", kind="reasonable")
def steps(a, b, total, first, steps):
    for _ in range(steps):
        total += a + b
    return total + first


@bench.variant(device="cpu", why="it takes no single element")
class Pairs:
    def prepare(self, a):
        self.halves = a.view(-1, 2).shape

    def run(self, a, b, total, first, steps):
        return total + steps * (a + b) + first
