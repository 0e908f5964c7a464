"""A target that moves all limits that it can reach, in each process that imports it."""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.harness.run import options, sampler
from aiperf_core.validity.checks import self_check

options.TIERS["quick"] = options.Tier(rounds=1, budget_s=1e-9, controls=False)
options.Options.round_budget_s = options.Options.rounds = 0
sampler.MIN_PASSES = self_check.LEAST_PASSES = 0
bench = Benchmark(goal="speed", cache="warm", threads=1)


@bench.workload(smoke={"n": 61})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def copied(a):
    return a.clone()


@bench.variant(device="cpu", why="copies twice")
def twice(a):
    return a.clone().clone()


@bench.variant(device="cpu", why="never ends")
def endless(a):
    while True:
        pass
