"""Steps of one text through weights: each step waits for the one before, and reads all weights again.

Question    What does a step cost that reads weights which no cache holds?
Numbers     40 steps through 256 MiB of float32.
Prediction  Reads alone bound it.
Limits      Few weights (`small`): they stay in a cache. See `--size wide` too; `cpu` is the default.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="latency", clock="wall")


@bench.workload(
    smoke={"width": 7, "steps": 3, "times": 1},
    cpu={"width": 8192, "steps": 40, "times": 40},
    wide={"width": 16384, "steps": 2, "times": 2},
    small={"width": 64, "steps": 40, "times": 1},
)
def inputs(width, device, generator):
    return {"x": torch.randn(width, device=device, generator=generator)}


@bench.static
def matrix(width, device, generator):
    return {"w": torch.randn(width, width, device=device, generator=generator) / width}


@bench.reference(tolerance=fp32)
def reference(x, w, steps):
    for _ in range(steps):
        x = w @ x
    return x


@bench.cost
def cost(width, steps, times):
    return Cost(bytes_read=4 * times * width * width, bytes_written=4 * width, flops=2 * steps * width * width)


@bench.baseline(device="cpu", kind="reasonable")
def one_by_one(x, w, steps):
    for _ in range(steps):
        x = w @ x
    return x
