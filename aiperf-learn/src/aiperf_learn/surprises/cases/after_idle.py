"""The first call after a sleep is slow. After the same time in a loop it is not: the sleep of the processor costs."""

import statistics
import time

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

N, PAUSE_S = 1 << 14, 2e-4

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 1021}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.rand(n, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(x):
    return x.sum()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def old(x):
    return x.sum()


@bench.variant(device="cpu", why="the same code under another name")
def new(x):
    return x.sum()


def fooled():
    x, seconds = torch.rand(N), {"old": 0.0, "new": 0.0}
    for _ in range(200):
        time.sleep(PAUSE_S)  # as where a request arrives
        for name, call in {"old": old, "new": new}.items():
            start = time.perf_counter()
            call(x)
            seconds[name] += time.perf_counter() - start
    return {name: total / 200 for name, total in seconds.items()}


def cause():
    yield (
        "median time of a call after",
        "s",
        {
            "nothing": after(lambda: None),
            "0.2 ms of sleep": after(lambda: time.sleep(PAUSE_S)),
            "0.2 ms in a loop": after(wait),
        },
    )


def after(pause):
    x, times = torch.rand(N), []
    for _ in range(200):
        pause()
        start = time.perf_counter()
        old(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def wait():
    until = time.perf_counter() + PAUSE_S
    while time.perf_counter() < until:
        pass
