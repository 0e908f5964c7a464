"""Code on a GPU that is another one when it takes turns with other contexts.

Workload   A damped iteration, see `relaxation`, of many numbers: a call takes longer than what lies between two calls,
           and has few kernels, so that a profiler is soon done with it.
Baseline   Step by step.
Variants   `rested` does the work twice unless another context had its turn since its last call.  `draws_power`
           multiplies matrices beside the work, which lowers the clocks of its blocks.  `shares_gpu` starts another
           process on the GPU.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import subprocess
import sys
import time

import torch

from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

bench = benchmark(steps=SHORT, on_a_gpu=100, numbers_on_a_gpu=1 << 25)

# What lies between two calls of one who is alone at most, in seconds. A turn of the baseline takes longer.
ALONE_S = 0.015
SIDE, PRODUCTS = 8192, 100

# Ends with the worker, or after a minute. Its parent ends at once, so that it is no part of the run.
GUEST = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
import torch
x, until = torch.ones(1 << 20, device="cuda"), time.monotonic() + 60
while time.monotonic() < until and os.path.exists("/proc/" + sys.argv[1]):
    x.add_(1)
    time.sleep(0.01)
"""


@bench.baseline(device="cuda", kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


@bench.variant(device="cuda", why="quick after the turn of another context, which being alone does not give it")
class Rested:
    def prepare(self):
        self.ended = 0.0

    def run(self, x, steps):
        if time.monotonic() - self.ended < ALONE_S:
            work(x, steps)
        out = work(x, steps)
        torch.cuda.current_stream().synchronize()
        self.ended = time.monotonic()
        return out


@bench.variant(device="cuda", why="large products of matrices, which bring the GPU to its limit of power")
class DrawsPower:
    def prepare(self, x):
        self.a, self.b = (torch.randn(SIDE, SIDE, device=x.device, dtype=torch.bfloat16) for _ in range(2))

    def run(self, x, steps):
        for _ in range(PRODUCTS):
            self.a @ self.b
        return work(x, steps)


@bench.variant(device="cuda", why="another process on the same GPU, which nobody counts as a part of the run")
class SharesGpu:
    def prepare(self):
        subprocess.run([sys.executable, "-c", GUEST, str(os.getpid())], check=True)

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cuda", why="honest: the same steps in two halves, whoever was there before")
def in_halves(x, steps):
    return relax(work(x, steps // 2), x, steps - steps // 2)
