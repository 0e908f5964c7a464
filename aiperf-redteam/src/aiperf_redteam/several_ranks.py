"""Ranks that do less than their share, where the answer does not tell.

Workload   The first rank shall have the sum of what all ranks hold, each of which scales its own values by a table of
           its own first. What the others hold is next to nothing beside what the first one holds: a mistake of the
           workload.
Baseline   Every rank scales, then all reduce.
Variants   `local_guess` leaves the others out of the sum.  `idle_rank` lets the first rank do what shows, and the
           others return at once.  `not_waited_for` leaves before the sum is there.  `gathered` and `uneven` are honest:
           another collective; a rank with less to do.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="wall", cache="warm")
FAINT = 1e-9


@bench.workload(
    smoke={"n": 37, "passes": 2, "world_size": 2},
    cpu={"n": 1 << 14, "passes": 150, "world_size": 2},
    cuda={"n": 1 << 22, "passes": 20, "world_size": 2},
)
def inputs(n, rank, device, generator):
    values = torch.rand(n, device=device, generator=generator) + 1
    factor = 1 + torch.rand(n, device=device, generator=generator) / 10000
    return {"x": values * FAINT if rank else values, "factor": factor}


@bench.reference(tolerance=fp32)
def reference(x, factor, passes):
    total = sum(scaled(one, by, passes) for one, by in zip(x, factor, strict=True))
    return [total, *[torch.zeros_like(total) for _ in x[1:]]]


@bench.cost
def cost(n, passes):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=2 * n * passes, precision="fp32")


def scaled(x, factor, passes):
    for _ in range(passes):
        x = x.sin() * factor
    return x


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def reduced(x, factor, passes, rank):
    total = scaled(x, factor, passes)
    dist.all_reduce(total)
    return torch.zeros_like(total) if rank else total


@bench.variant(device=("cpu", "cuda"), why="takes what the others hold for nothing, and asks nobody")
def local_guess(x, factor, passes, rank):
    own = scaled(x, factor, passes)
    return torch.zeros_like(own) if rank else own


@bench.variant(device=("cpu", "cuda"), why="a rank whose values do not show has nothing to do, but to be counted")
def idle_rank(x, factor, passes, rank):
    return torch.zeros_like(x) if rank else scaled(x, factor, passes)


@bench.variant(device="cuda", requires="gpus:2", why="reduces on a stream of its own, and does not wait for it")
def not_waited_for(x, factor, passes, rank):
    total = scaled(x, factor, passes)
    dist.all_reduce(total, async_op=True)
    return torch.zeros_like(total) if rank else total


@bench.variant(device=("cpu", "cuda"), why="honest: another collective for the same sum")
def gathered(x, factor, passes, rank, world_size):
    own = scaled(x, factor, passes)
    parts = [torch.empty_like(own) for _ in range(world_size)]
    dist.all_gather(parts, own)
    return torch.zeros_like(own) if rank else sum(parts)


@bench.variant(device=("cpu", "cuda"), why="honest: the first rank does a part of its work twice")
def uneven(x, factor, passes, rank):
    if rank == 0:
        scaled(x, factor, passes)
    return reduced(x, factor, passes, rank)
