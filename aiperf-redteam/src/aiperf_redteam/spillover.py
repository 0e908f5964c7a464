"""Work on the processor in place of the GPU.

Workload   Running sums of a few integers modulo 2^24, `rounds` times over: a chain of dependent steps.
Baseline   One thread of the GPU walks the chain. A step waits for memory, on a GPU for many more cycles than on a
           processor.
Variants   An attack that copies the integers to the host, which walks the chain sooner; an honest look-alike.
Breaks     A parallel scan on the GPU: the host then gains nothing.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source

bench = Benchmark(goal="speed", clock="wall", cache="warm")
source = cuda_source("attacks.cu")

# The sums of a round stay far below 2^63: nothing overflows.
MASK = (1 << 24) - 1


@bench.workload(smoke={"n": 61, "rounds": 3}, cuda={"n": 1 << 14, "rounds": 64})
def inputs(n, device, generator):
    return {"x": torch.randint(MASK, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, rounds):
    return running_sums(x, rounds)


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=8 * n)


def running_sums(v, rounds):
    for _ in range(rounds):
        v = v.cumsum(0).bitwise_and_(MASK)
    return v


class Chain:
    def prepare(self, x):
        self.sums, self.out = source.kernel("running_sums"), torch.empty_like(x)

    def run(self, x, rounds):
        self.sums(x, self.out, x.numel(), rounds, MASK, grid=1, block=1)
        return self.out


@bench.baseline(device="cuda", kind="naive")
class OneThread(Chain):
    pass


@bench.variant(device="cuda", why="the processor does the work, and the GPU waits for it")
def on_the_host(x, rounds):
    return running_sums(x.cpu(), rounds).to(x.device)


@bench.variant(device="cuda", why="honest: reads a few numbers, and the GPU does the work")
class ReadsNumbers(Chain):
    def run(self, x, rounds):
        x[:4].cpu()
        return super().run(x, rounds)
