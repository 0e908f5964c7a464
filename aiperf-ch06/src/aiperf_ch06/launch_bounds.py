"""Launch bounds: registers or threads, chosen on purpose.

Question    Does it pay to make the compiler fit more threads on an SM?
Numbers     For each of 2^18 rows the sum of outer products of 64 gathered pairs of vectors of eight float32, anywhere
            in two tables of 32 MiB: 64 sums and 16 factors a row. A thread a row, in blocks of 256; all forms do the
            same arithmetic in the same order.
Prediction  Without a bound two blocks fit on an SM. (256, 3) and (256, 4) leave 80 and 64 registers a thread: the sums
            fit into neither beside all else, and what does not fit goes to memory. `two_lanes` has half of the sums a
            lane, so that four blocks fit without a bound; it gains if warps are what memory waits for.
Limits      Here the four loads of a step do not wait for each other, and more threads gain nothing. Where each load
            waits for the one before, warps are what hides latency, as in `ch08.occupancy_vs_ilp`. Work that is bound by
            arithmetic gains nothing either.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cuda": "a thread's own loads hide each other, so more threads find no idle memory, and spills cost"},
)
cuda = bench.on("cuda", requires="sm_80")
device_code = cuda_source("launch_bounds.cu")

WIDTH = 8  # of a vector
THREADS = 256
PART = 1 << 14  # rows that the reference has in work


@bench.workload(
    smoke={"rows": 301, "gathered": 5, "entries": 67},
    cuda={"rows": 1 << 18, "gathered": 64, "entries": 1 << 20},
)
def inputs(rows, gathered, entries, device, generator):
    tables = {name: torch.randn(entries, WIDTH, device=device, generator=generator) for name in ("a", "b")}
    return tables | {"index": torch.randint(entries, (gathered, rows), device=device, generator=generator).int()}


@bench.reference(tolerance=fp32_reduction)
def reference(a, b, index):
    parts = [torch.einsum("grx,gry->xyr", a[part.long()], b[part.long()]) for part in index.split(PART, 1)]
    return torch.cat(parts, 2)


@bench.cost
def cost(rows, gathered, entries):
    return Cost(
        bytes_read=4 * rows * gathered + 2 * 4 * WIDTH * entries,
        bytes_written=4 * WIDTH**2 * rows,
        flops=2 * WIDTH**2 * rows * gathered,
    )


# A single row, pair and entry; a last block, and a last pair of lanes, that are not full.
bench.awkward(
    {"rows": 1, "gathered": 1, "entries": 1},
    {"rows": 257, "gathered": 2, "entries": 3},
    {"rows": 127, "gathered": 31, "entries": 1009},
)
cuda.reach(of="time:unbounded", at_most=1.1, implementation="two_lanes")


def sums(a, rows):
    """Memory for the sums of each row, rows last."""
    return a.new_empty(WIDTH, WIDTH, rows)


thread_a_row = launch(device_code, out=sums, grid=blocks(rows=THREADS), block=THREADS)

cuda.baseline(thread_a_row("unbounded"), kind="reasonable")
cuda.variant(
    thread_a_row("three_blocks"),
    adds="launch bounds",
    why="half as many threads again wait for memory at the same time, with 80 registers each",
    teaches="64 sums and two vectors do not fit into 80 registers: a few go to memory and back in each step",
)
cuda.variant(
    thread_a_row("four_blocks"),
    adds="tight launch bounds",
    why="twice the threads, with 64 registers each",
    teaches="64 registers cannot hold 64 sums: what is spilled goes to memory and back in each step",
)
cuda.variant(
    thread_a_row("two_lanes", grid=blocks(rows=THREADS // 2)),
    adds="split rows",
    why="a lane has half of the sums, so twice the threads fit without a spill; a pair of lanes loads the same sectors",
    teaches="twice the threads bring nothing where the loads of a step do not wait for each other",
)
bench.sass("unbounded", has="FFMA", lacks=("LDL", "STL"))
bench.sass("two_lanes", has="FFMA", lacks=("LDL", "STL"))
bench.sass("four_blocks", has=("LDL", "STL"))
