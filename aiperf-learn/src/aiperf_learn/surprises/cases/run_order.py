"""The first version to write into new memory pays for its pages, and the second finds them there."""

import resource
import time

import torch

from aiperf_core import Benchmark, Cost, fp32

N = 1 << 24

bench = Benchmark(goal="speed", clock="wall", threads=1)


@bench.workload(smoke={"n": 1021}, cpu={"n": N})
def inputs(n, generator):
    return {"x": torch.rand(n, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x):
    return x + x


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
class Old:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.add(x, x, out=self.out)


@bench.variant(device="cpu", why="the same code under another name")
class New(Old):
    pass


def fooled(order=(Old, New)):
    x, out, readings = torch.rand(N), torch.empty(N), {}
    for version in order:
        call = version()
        call.out = out
        start = time.perf_counter()
        call.run(x)
        readings[version.__name__.lower()] = time.perf_counter() - start
    return readings


def cause():
    x, version, faults = torch.rand(N), Old(), {}
    version.prepare(x)
    for place in ("of the first", "of the second"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        version.run(x)
        faults[place] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    yield "page faults", "count", faults
    for order in ((Old, New), (New, Old)):
        names = " then ".join(version.__name__.lower() for version in order)
        yield f"time, {names}", "s", dict(zip(faults, fooled(order).values(), strict=True))
