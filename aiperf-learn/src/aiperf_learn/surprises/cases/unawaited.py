"""A call that hands its work to another thread returns before the work is done, as a kernel launch does on a GPU."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.benchmark import Timer

from aiperf_core import Benchmark, Cost, fp32

N = 1024

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.randn(n, n, generator=generator), "y": torch.randn(n, n, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, y):
    return x @ y


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3)


@bench.baseline(device="cpu", kind="reasonable")
def awaited(x, y):
    return x @ y


@bench.variant(device="cpu", why="the caller does not wait")
class Submitted:
    def prepare(self, x):
        self.pool, self.out = ThreadPoolExecutor(1), torch.empty_like(x)

    def run(self, x, y):
        self.pool.submit(torch.mm, x, y, out=self.out)
        return self.out


def fooled():
    x, y, submitted = torch.randn(N, N), torch.randn(N, N), Submitted()
    submitted.prepare(x)
    readings = {}
    for name, call in {"awaited": awaited, "submitted": submitted.run}.items():
        timer = Timer("call(x, y)", globals={"call": call, "x": x, "y": y})
        readings[name] = timer.timeit(20).mean
    return readings


def cause():
    x, submitted = torch.randn(N, N), Submitted()
    submitted.prepare(x)
    submitted.out.fill_(float("nan"))
    at_return = int((~submitted.run(x, x).isnan()).sum())
    submitted.pool.shutdown(wait=True)
    written = {"when the call returns": at_return, "after waiting": int((~submitted.out.isnan()).sum())}
    yield f"elements written, of {N * N:,}", "count", written
