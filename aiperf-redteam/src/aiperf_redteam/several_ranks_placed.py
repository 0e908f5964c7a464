"""Ranks that run elsewhere, or reduce in other buckets, than those of the baseline.

Workload   Each rank scales its own gradients, in four tensors; all shall have the sums.
Baseline   One reduction a tensor.
Variants   `pinned` keeps each rank on one processor; the baseline's ranks may use all.  `one_bucket` reduces all four
           at once.  `backwards` and `asks_for_its_place` are honest: the same buckets in another order; a question for
           the processors, without a change.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="wall", cache="warm")
LAYERS = 4


@bench.workload(smoke={"n": 37, "world_size": 2}, cpu={"n": 1 << 14, "world_size": 2})
def inputs(n, device, generator):
    return {f"g{layer}": torch.randn(n, device=device, generator=generator) for layer in range(LAYERS)}


@bench.reference(tolerance=fp32)
def reference(g0, g1, g2, g3):
    sums = [2 * sum(ranks) for ranks in (g0, g1, g2, g3)]
    return [sums for _ in g0]


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n * LAYERS, bytes_written=4 * n * LAYERS, flops=n * LAYERS)


def reduced(gradients):
    for gradient in gradients:
        dist.all_reduce(gradient)
    return gradients


@bench.baseline(device="cpu", kind="reasonable")
def by_tensor(g0, g1, g2, g3):
    return reduced([2 * g0, 2 * g1, 2 * g2, 2 * g3])


@bench.variant(device="cpu", why="all gradients in one reduction")
def one_bucket(g0, g1, g2, g3):
    whole = 2 * torch.cat([g0, g1, g2, g3])
    dist.all_reduce(whole)
    return list(whole.clone().chunk(LAYERS))


@bench.variant(device="cpu", why="honest: the same reductions, the last layer's first")
def backwards(g0, g1, g2, g3):
    return reduced([2 * g3, 2 * g2, 2 * g1, 2 * g0])[::-1]


@bench.variant(device="cpu", why="each rank takes a processor for itself")
class Pinned:
    def prepare(self, rank):
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[rank % len(usable)]})

    def run(self, g0, g1, g2, g3):
        return by_tensor(g0, g1, g2, g3)


@bench.variant(device="cpu", why="honest: asks where it may run, and changes nothing")
class AsksForItsPlace:
    def prepare(self):
        self.usable = os.sched_getaffinity(0)

    def run(self, g0, g1, g2, g3):
        return by_tensor(g0, g1, g2, g3) if self.usable else []
