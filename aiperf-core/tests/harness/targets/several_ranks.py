"""Ranks: an all-reduce by the library, by hand, and in ways that fail."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="latency", clock="wall", cache="warm")


@bench.workload(
    state=["total"],
    smoke={"n": 1009, "world_size": 2},
    cpu={"n": 1 << 16, "world_size": 2},
    cuda={"n": 1 << 20, "world_size": 2},
)
def inputs(n, rank, world_size, device, generator):
    values = torch.randn(n, device=device, generator=generator)
    return {"x": values * (rank + 1), "scale": 1.0 + rank / world_size, "total": torch.zeros(3, device=device)}


@bench.reference(tolerance=fp32)
def reference(x, scale, total):
    whole = sum(one * factor for one, factor in zip(x, scale, strict=True))
    return [{"sum": whole, "rank": rank, "total": kept + 1} for rank, kept in enumerate(total)]


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n, wire_bytes=4 * n)


def said(summed, total):
    total += 1
    return {"sum": summed, "rank": dist.get_rank(), "total": total}


@bench.baseline(device=["cpu", "cuda"], kind="reasonable")
def library(x, scale, total):
    summed = x * scale
    dist.all_reduce(summed)
    return said(summed, total)


@bench.variant(device=["cpu", "cuda"], why="every rank reads what all others have")
def gathered(x, scale, total, world_size):
    scaled = x * scale
    parts = [torch.empty_like(scaled) for _ in range(world_size)]
    dist.all_gather(parts, scaled)
    return said(sum(parts), total)


@bench.variant(device=["cpu", "cuda"], why="one rank is slow")
def slow_rank(x, scale, total, rank):
    if rank == 1:
        time.sleep(0.2)
    return library(x, scale, total)


@bench.variant(device="cpu", why="one rank answers wrongly")
def wrong_rank(x, scale, total, rank):
    answer = library(x, scale, total)
    return {**answer, "sum": answer["sum"] * (1 + rank)}


@bench.variant(device="cpu", why="no rank talks to another")
def silent(x, scale, total):
    return said(x * scale, total)


@bench.variant(device="cpu", why="one rank dies")
def dies(x, scale, total, rank):
    if rank == 1:
        print("my last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return library(x, scale, total)


@bench.variant(device="cpu", why="one rank exits")
def exits(x, scale, total, rank):
    if rank == 0:
        os._exit(7)
    return library(x, scale, total)


@bench.variant(device="cpu", why="one rank raises")
def raises(x, scale, total, rank):
    if rank == 1:
        raise ValueError("not today")
    return library(x, scale, total)


@bench.variant(device="cpu", why="one rank hangs")
def hangs(x, scale, total, rank):
    if rank == 1:
        time.sleep(600)
    return library(x, scale, total)
