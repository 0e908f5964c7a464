"""Launch bounds: registers or threads, chosen on purpose.

Workload   For each row, the sum of outer products of `gathered` pairs of vectors of eight float32 values, which lie
           anywhere in two tables.
Baseline   A thread a row, with its 8 x 8 sums in registers. The compiler takes as many registers as it likes, so two
           blocks of 256 threads fit on a multiprocessor, and few loads wait for memory at the same time.
Variants   All do the same arithmetic in the same order.  `three_blocks`, `four_blocks`: __launch_bounds__(256, 3) and
           (256, 4) make the compiler fit a thread into 80 and 64 registers.  `two_lanes`: two neighbouring lanes share
           a row, so that each has half of the sums, and four blocks fit without any bound on the registers.
Observe    `aiperf kernels ch06.launch_bounds` shows registers and stack of each kernel: a stack is what did not fit.
Breaks     Sums that do not fit are spilled: they go to memory and back in every step, and cost more than the threads
           bring. Work that is bound by arithmetic gains nothing from more threads.
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
    why="half as many threads again wait for memory at the same time, if 80 registers are enough",
)
cuda.variant(
    thread_a_row("four_blocks"),
    adds="tight launch bounds",
    why="what it teaches: twice the threads, but 64 registers cannot hold 64 sums: what is spilled goes to memory",
)
cuda.variant(
    thread_a_row("two_lanes", grid=blocks(rows=THREADS // 2)),
    adds="split rows",
    why="a lane has half of the sums, so twice the threads fit without a spill; a pair of lanes loads the same sectors",
)
