"""A schedule of jobs on two machines, whose virtual time the implementations return, and others that return none."""

import math
import time

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")
bench.simulated(metric="done_s", seeds=8)


@bench.workload(smoke={"jobs": 12}, cpu={"jobs": 12})
def inputs(jobs, device, generator):
    return {"lengths": torch.randint(1, 9, (jobs,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(lengths):
    return {"work": lengths.sum()}


@bench.cost
def cost(jobs):
    return Cost(optimum_s=jobs / 2)


def makespan_s(lengths):
    machines = [0, 0]
    for length in lengths:
        machines[machines.index(min(machines))] += length
    return float(max(machines))


@bench.baseline(device="cpu", kind="naive")
def one_machine(lengths):
    return {"work": lengths.sum(), "done_s": float(lengths.sum())}


@bench.variant(device="cpu", why="the machine that is free first takes the next job")
def two_machines(lengths):
    time.sleep(0.002)  # of real time, which nobody measures
    return {"work": lengths.sum(), "done_s": makespan_s(lengths.tolist())}


@bench.variant(device="cpu", why="its time is not a number")
def lost(lengths):
    return {"work": lengths.sum(), "done_s": math.nan}


@bench.variant(device="cpu", why="it returns no time")
def silent(lengths):
    return {"work": lengths.sum()}


@bench.variant(device="cpu", why="its simulation fails")
def failing(lengths):
    raise RuntimeError("no machine is left")


@bench.variant(device="cpu", why="it does less work, faster")
def cheating(lengths):
    return {"work": lengths[:6].sum(), "done_s": makespan_s(lengths[:6].tolist())}
