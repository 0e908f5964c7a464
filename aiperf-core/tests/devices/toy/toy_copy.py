"""Copying on the simulated accelerator: one launch is cheaper than many.

Workload   b = a over n float32 values.
Baseline   A launch for each of many parts, each a while in the queue.
Variants   `whole`: one launch.  `unwaited`: left to run when the call returns.  `stale`, `spoiling`: wrong.
Breaks     Where a launch costs nothing.
"""

import time
from functools import partial

import torch
import toy_device

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", clock="device", cache="cold")
PARTS, LAUNCH_S, SLOW_S = 8, 0.001, 0.03


@bench.workload(smoke={"n": 4096}, toy={"n": 8192})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a.clone()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


def kernel(out, a, seconds):
    time.sleep(seconds)
    out.copy_(a)


@bench.baseline(device="toy", kind="naive")
class Parts:
    def prepare(self, a):
        self.out = torch.empty_like(a)
        toy_device.the_queue().allocate(4 * a.numel())

    def run(self, a):
        for out, part in zip(self.out.chunk(PARTS), a.chunk(PARTS), strict=True):
            toy_device.submit(partial(kernel, out, part, LAUNCH_S))
        toy_device.synchronize()
        return self.out


@bench.variant(device="toy", why="one launch instead of many", requires="capability:queues")
class Whole(Parts):
    def run(self, a):
        toy_device.submit(partial(kernel, self.out, a, LAUNCH_S))
        toy_device.synchronize()
        return self.out


@bench.variant(
    device="toy",
    why="nobody waits for the launch, whose work takes as long all the same",
    requires="capability:queues",
)
class Unwaited(Parts):
    def run(self, a):
        toy_device.submit(partial(kernel, self.out, a, SLOW_S))
        return self.out


@bench.variant(device="toy", why="copies what it was given before")
class Stale(Parts):
    def run(self, a):
        if not hasattr(self, "kept"):
            self.kept = a.clone()
        toy_device.submit(partial(kernel, self.out, self.kept, 0.0))
        return self.out


@bench.variant(device="toy", why="leaves its inputs behind as it pleases")
class Spoiling(Parts):
    def run(self, a):
        toy_device.submit(partial(kernel, self.out, a, 0.0))
        toy_device.submit(a.zero_)
        return self.out


@bench.variant(device="toy", why="needs what the toy has not", requires="capability:fp64")
def wide(a):
    return a
