"""Latency: more warps, or more loads in each, are two ways to the same bytes in flight.

Question    A walk waits for each of its loads. Is it hidden by more walks a thread, or by more threads?
Numbers     2^20 walks of 64 hops through a table of 2 GiB, where the next place is what stands at this one: 67 million
            random sectors of 32 bytes. A load from memory takes 0.6 to 0.8 us; one warp an SM has 4224 of them in
            flight, some 6 a nanosecond, and the memory of an H200 serves near 40.
Prediction  The time halves with each doubling of walks a thread, until memory serves no more: about 6x with eight. As
            many warps as fit, with a walk each, end at the same rate.
Limits      A table in the cache: the wait is short, and a few warps hide it. Eight walks need registers, which cost
            occupancy. Loads that do not depend on each other are under way at once without any of this.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("occupancy_vs_ilp.cu"), host_source("occupancy_vs_ilp.c")

THREADS, FEW = 128, 32  # of a block; of the only block on an SM
CACHE_BYTES = 128e6  # of the largest last-level cache of a GPU (B200)


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
    # A word for each hop, and none twice; and a sector for each, but for those that a cache may hold.
    return Cost(
        bytes_read=4 * (min(places, walks * hops) + walks),
        bytes_written=4 * walks,
        sectors=walks * hops * max(0, 1 - CACHE_BYTES / (4 * places)),
    )


# A single place; fewer walks than a thread has; one more than a block has.
bench.awkward(
    {"places": 1, "walks": 1, "hops": 1},
    {"places": 31, "walks": 7, "hops": 3},
    {"places": 100003, "walks": 1025, "hops": 17},
    {"places": 997, "walks": 140001, "hops": 2},
)
cuda.reach(of="time:full_occupancy", at_most=1.2, implementation="eight_walks")
cuda.reach(of="SOL", at_least=0.85, implementation="full_occupancy")
cpu.reach(of="speedup", at_least=3)


def one_warp(walks):
    """One warp for each SM, or fewer."""
    return min(-(-walks // FEW), grid_that_fills(device_code.kernel("one_walk"), FEW, per_multiprocessor=1))


def all_blocks(kernel):
    """As many blocks of a kernel as the chip holds at once, or fewer."""
    return lambda walks: min(-(-walks // THREADS), grid_that_fills(device_code.kernel(kernel), THREADS))


few_warps = launch(device_code, out="start", grid=one_warp, block=FEW)
loops = loop(host_code, out="start")

for device, made in ((cuda, few_warps), (cpu, loops)):
    device.baseline(made("one_walk"), kind="naive")
    device.variant(
        made("two_walks"),
        adds="two loads",
        why="two requests are under way while a thread waits",
        predict="1.6 to 2x: twice the requests in flight",
    )
    device.variant(
        made("four_walks"), builds_on="two_walks", adds="four loads", why="four requests, in the time of one"
    )
    device.variant(
        made("eight_walks"), builds_on="four_walks", adds="eight loads", why="eight requests, in the time of one"
    )

cuda.variant(
    few_warps("full_occupancy", kernel="one_walk", grid=all_blocks("one_walk"), block=THREADS),
    adds="occupancy",
    why="64 warps an SM: each has one request under way, and others issue while it waits",
)
cuda.variant(
    few_warps("both", kernel="eight_walks", grid=all_blocks("eight_walks"), block=THREADS),
    builds_on="full_occupancy",
    adds="eight loads",
    why="64 warps with eight requests each: more than memory takes at once",
    teaches="past the rate of memory, more requests only wait in queues, and lose",
)
