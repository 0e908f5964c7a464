"""Implementations that return where they may run: on the one processor that the workload asks for."""

import os

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="wall", threads=1)


@bench.workload(smoke={"n": 1000})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 100, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return {"sum": a.sum(), "processors": 1, "threads": 1}


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n)


@bench.baseline(device="cpu", kind="reasonable")
def here(a):
    return {"sum": a.sum(), "processors": len(os.sched_getaffinity(0)), "threads": torch.get_num_threads()}


@bench.variant(device="cpu", why="the same")
def here_too(a):
    return here(a)
