"""Latency: more warps, or more loads in each, are two ways to the same bytes in flight.

Workload   Walks through a table of random places: the next place is what stands at this one, so that each load of a
           walk waits for the one before. The table of 2 GiB (cpu: 64 MiB) is larger than the caches.
Baseline   One walk at a time in each thread. cuda: with four warps on a multiprocessor, as many as a kernel has whose
           registers or shared memory allow no more.
Variants   `two_walks`, `four_walks`, `eight_walks`: a thread goes on with another walk while one waits.
           cuda: `full_occupancy`: as many warps as fit, with one walk each.  `both`: eight walks in as many warps as
           fit; what it teaches: once memory has all the requests that it can take, more gain little.
Breaks     A table in the cache: the wait is short, and a few warps hide it. Walks that need many registers: eight of
           them cost occupancy, which is the exchange that this target is about. Loads that do not depend on each
           other: compilers and processors then have several under way by themselves.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("occupancy_vs_ilp.cu"), host_source("occupancy_vs_ilp.c")

THREADS = 128


@bench.workload(
    smoke={"places": 4099, "walks": 1021, "hops": 5},
    cpu={"places": 1 << 24, "walks": 1 << 10, "hops": 128},
    cuda={"places": 1 << 29, "walks": 1 << 20, "hops": 64},
)
def inputs(places, walks, device, generator):
    draw = {"dtype": torch.int32, "device": device, "generator": generator}
    return {"table": torch.randint(places, (places,), **draw), "start": torch.randint(places, (walks,), **draw)}


@bench.reference(tolerance=exact)
def reference(table, start, hops):
    place = start
    for _ in range(hops):
        place = table[place.long()]
    return place


@bench.cost
def cost(places, walks, hops):
    # A word for each hop, and none twice. Hardware fetches whole sectors and lines, which few walks share.
    return Cost(bytes_read=4 * (min(places, walks * hops) + walks), bytes_written=4 * walks)


# A single place; fewer walks than a thread has; one more than a block has.
bench.awkward(
    {"places": 1, "walks": 1, "hops": 1},
    {"places": 31, "walks": 7, "hops": 3},
    {"places": 100003, "walks": 1025, "hops": 17},
    {"places": 997, "walks": 140001, "hops": 2},
)
cuda.reach(of="time:full_occupancy", at_most=1.1, implementation="eight_walks")
cpu.reach(of="speedup", at_least=3)


def one_block(walks):
    """One block for each multiprocessor, or fewer."""
    return min(-(-walks // THREADS), grid_that_fills(device_code.kernel("one_walk"), THREADS, per_multiprocessor=1))


def all_blocks(kernel):
    """As many blocks of a kernel as the chip holds at once, or fewer."""
    return lambda walks: min(-(-walks // THREADS), grid_that_fills(device_code.kernel(kernel), THREADS))


few_warps = launch(device_code, out="start", grid=one_block, block=THREADS)
loops = loop(host_code, out="start")

for device, made in ((cuda, few_warps), (cpu, loops)):
    device.baseline(made("one_walk"), kind="naive")
    device.variant(made("two_walks"), adds="two loads", why="two requests are under way while a thread waits")
    device.variant(
        made("four_walks"), builds_on="two_walks", adds="four loads", why="four requests, in the time of one"
    )
    device.variant(
        made("eight_walks"), builds_on="four_walks", adds="eight loads", why="eight requests, in the time of one"
    )

cuda.variant(
    few_warps("full_occupancy", kernel="one_walk", grid=all_blocks("one_walk")),
    adds="occupancy",
    why="sixteen times the warps: each has one request under way, and others issue while it waits",
)
cuda.variant(
    few_warps("both", kernel="eight_walks", grid=all_blocks("eight_walks")),
    builds_on="eight_walks",
    adds="occupancy",
    why="many warps with eight requests each: more than memory takes at once",
)
