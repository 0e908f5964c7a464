"""The garbage collector walks through every object of the process in some of the calls, and an average spreads them."""

import gc
import statistics
import time

import torch

from aiperf_core import Benchmark, Cost, exact

N = 20_000

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.randint(1000, (n,), generator=generator)}


@bench.reference(tolerance=exact)
def reference(x):
    return x.sum()


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, flops=n)


@bench.baseline(device="cpu", kind="naive")
def records(x):
    made = [[value, [value]] for value in x.tolist()]
    return torch.tensor(sum(record[0] for record in made))


def fooled(average=statistics.mean):
    x, times = torch.randint(1000, (N,)), []
    for _ in range(40):
        start = time.perf_counter()
        records(x)
        times.append(time.perf_counter() - start)
    return {"records": average(times)}


def cause():
    counts, means, medians = {}, {}, {}
    for state, switch in (("collector off", gc.disable), ("collector on", gc.enable)):
        switch()
        before = gc.get_stats()[2]["collections"]
        times = fooled(list)["records"]
        counts[state] = gc.get_stats()[2]["collections"] - before
        means[state], medians[state] = statistics.mean(times), statistics.median(times)
    yield "full collections in 40 calls", "count", counts
    yield "average time of a call", "s", means
    yield "median time of a call", "s", medians
