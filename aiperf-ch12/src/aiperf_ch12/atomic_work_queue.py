"""A work queue: lanes that take their next item when they are done wait for no other.

Question    Items take very different times, and nobody knows which lane will get a long one. Who gives out the work?
Numbers     2^22 particles; an eighth lives 2048 to 4080 time steps, the others 48 to 192, in shuffled order: 498 on
            average. A step is 4 dependent instructions, 7 operations: 14.6 GFLOP, 0.28 ms at 8.4 T instructions/s.
Prediction  Lanes that begin together wait for the longest of 32: one in 72 warps has no long item, so a round takes
            some 4000 steps for 498. Lanes that take items by themselves gain at most 8x; one counter that adds once
            a clock for 2^22 items takes 2.4 ms, and by 64 items an atomic 0.04 ms.
Limits      Items of equal length: a queue is an atomic more. Items that are few beside the lanes: the longest one sets
            the time, in any order. Longest first needs to know lengths, here exactly; a good guess is enough. Items in
            another order are gathered, here from the L2 cache.
"""

from functools import cache

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import filling, launch, loop

bench = Benchmark(goal="speed", clock="device", cache="warm")
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
device_code = cuda_source("atomic_work_queue.cu")
host_code = host_source("atomic_work_queue.c", options=("-ffp-contract=fast",))

STEP, GRAIN, THREADS, CHUNK = 2.0**-7, 16, 256, 64
LONG = 8  # one of so many particles lives long
SHUFFLED = 1  # the seed of the order

rounded_in_every_step = Tolerance(
    1e-4, reason="up to 4080 float32 steps, whose errors shift the phase of an oscillation"
)


@bench.workload(smoke={"n": 1009}, cpu={"n": 1 << 14}, cuda={"n": 1 << 22})
def inputs(n, device, generator):
    return {"x": 2 * torch.rand(n, device=device, generator=generator) - 1}


@bench.static
def lives(n, device):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(SHUFFLED))
    return {"life": sorted_lives(n)[order].to(device, torch.int32)}


def sorted_lives(n):
    """The numbers of steps, evenly spread over both ranges: the same for every draw."""
    long = n // LONG
    few = 48 + GRAIN * (10 * torch.arange(n - long) // (n - long))
    many = 2048 + GRAIN * (128 * torch.arange(long) // max(long, 1))
    return torch.cat((few, many))


@bench.reference(tolerance=rounded_in_every_step)
def reference(x, life):
    order = torch.argsort(life, descending=True)
    place, sorted_life = x[order].clone(), life[order]
    speed, done = torch.zeros_like(place), 0
    for until in torch.unique(sorted_life).tolist():
        count = int((sorted_life >= until).sum())
        q, p = place[:count], speed[:count]
        for _ in range(done, until):
            p -= STEP * (q * q * q + q)
            q += STEP * p
        done = until
    return torch.empty_like(x).index_put_((order,), place)


@cache
def steps_of_all(n):
    return int(sorted_lives(n).sum())


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=7 * steps_of_all(n), precision="fp32")


# A particle, as many as a warp has lanes, a chunk and one more, and more than a block takes at once.
bench.awkward(n=(1, 32, 65, 4099))
# 7 of 8 operations of four instructions; 64 of 75 instructions of a grain are steps; 0.92 of a balanced end.
cuda.reach(of="FMA:fp32", at_least=7 / 8 * 64 / 75 * 0.92, implementation="longest_first")
bench.sass("by_stride", has="FFMA")


def longest_first(life):
    return torch.argsort(life, descending=True).to(torch.int32)


def counter(x):
    return torch.zeros(1, dtype=torch.int32, device=x.device)


persistent = launch(device_code, out="x", make={"next": counter}, zero=("next",), grid=filling(), block=THREADS)

cuda.baseline(
    launch(device_code, out="x", grid=filling(), block=THREADS)("by_stride"), kind="reasonable", name="static"
)
cuda.variant(
    persistent("queue"),
    adds="work queue",
    why="a lane that is done takes the next item of all, and waits for no other lane",
    predict="0.6 to 2x: 8 times the lanes at work, but 2^22 additions to one address at one or two clocks each",
    teaches="one counter for all items is the bottleneck itself: it adds once a clock, whoever waits",
)
cuda.variant(
    persistent("chunked", kernel="from_chunks<false>", make={"next": counter, "order": lambda: None}),
    builds_on="queue",
    adds="chunks",
    why="a warp takes 64 items by one atomic, and its lanes share them out by a vote",
    predict="at least 2x: a vote takes some 30 cycles, and the counter a 64th of the time",
)
cuda.variant(
    persistent("longest_first", kernel="from_chunks<true>", make={"next": counter, "order": longest_first}),
    builds_on="chunked",
    adds="longest first",
    why="lanes of a warp have items of one length and end together, and no long item begins near the end",
    predict="1.1 to 2x: a vote and a load for 32 items at once, not for one or two every 16 steps",
)

shared_out = loop(host_code, out="x")
cpu.baseline(shared_out("by_stride"), kind="reasonable", name="static")
cpu.variant(
    shared_out(
        "queue",
        kernel="from_chunks",
        make={"order": lambda n: torch.arange(n, dtype=torch.int32), "chunk": lambda: 1},
    ),
    adds="work queue",
    why="a lane of a vector that is done gets the next item, and does not wait for the longest of eight",
    predict="2 to 5x: the longest of eight takes some 2300 steps on average, and an item 498",
)
cpu.variant(
    shared_out("longest_first", kernel="from_chunks", make={"order": longest_first, "chunk": lambda: CHUNK}),
    builds_on="queue",
    adds="longest first",
    why="the lanes of a vector end together, so that its particles are exchanged once and not eight times",
    teaches="an exchange costs as much as a few steps: its number hardly counts beside steps that are not wasted",
)
