"""A target whose inputs and output have many pages, and whose baseline touches no others in a call."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 1 << 19}, cpu={"n": 1 << 19})
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x):
    return x * 2


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device=("cpu",), kind="naive")
class Kept:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.mul(x, 2, out=self.out)
