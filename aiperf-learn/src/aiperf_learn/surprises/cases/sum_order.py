"""Each addition in float32 is rounded, so that another order gives another last digit: neither sum is wrong."""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

N = 1 << 20

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 1024}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.rand(n, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def whole(x):
    return x.sum()


@bench.variant(device="cpu", why="sums of blocks can be made at the same time")
def by_columns(x):
    return x.view(-1, 1024).sum(0).sum()


def fooled():
    for _ in range(20):
        x = torch.rand(N)
        if not torch.equal(by_columns(x), whole(x)):
            return {"by_columns": "wrong"}
    return {"by_columns": "right"}


def cause():
    x = torch.rand(N)
    exact = float(x.double().sum())
    sums = [float(whole(x[torch.randperm(N)])) for _ in range(20)]
    worst = max(abs(value - exact) / exact for value in sums)
    yield "different sums of 20 orders", "count", {"float32": len({*sums})}
    yield "largest relative error", "number", {"float32": worst, "accepted": fp32_reduction.rel_l2}
