"""On 16 elements both calls take the time of a call: the work, which grows with n squared or with n, does not show."""

import timeit

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

N, SMALL = 2048, 16

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.rand(n, generator=generator)}


@bench.static
def static(n):
    return {"lower": torch.ones(n, n).tril()}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.cumsum(0)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="naive")
def product(x, lower):
    return lower @ x


@bench.variant(device="cpu", why="each sum is the sum before it and an addition")
def running(x):
    return x.cumsum(0)


def fooled(n=SMALL):
    x, lower = torch.rand(n), torch.ones(n, n).tril()
    old = timeit.repeat(lambda: product(x, lower), number=100, repeat=20)
    new = timeit.repeat(lambda: running(x), number=100, repeat=20)
    return {"product": min(old) / 100, "running": min(new) / 100}


def cause():
    sizes = (SMALL, 256, N)
    seconds = {f"n = {n:,}": fooled(n) for n in sizes}
    yield "multiply-adds of product", "count", {f"n = {n:,}": n * n for n in sizes}
    for name in ("product", "running"):
        yield f"time of {name}", "s", {size: times[name] for size, times in seconds.items()}
