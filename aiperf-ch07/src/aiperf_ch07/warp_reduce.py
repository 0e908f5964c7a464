"""Reduction: shuffles instead of barriers.

Workload   The sum of each row: 2^18 rows of 2048 float32, evenly distributed between -1 and 1, so that most of a sum
           cancels.
Baseline   cuda: a block a row; its 256 sums meet in a tree in shared memory, with a barrier at each of eight levels.
           cpu: one sum a row, in which every addition waits for the one before.
Variants   cuda: none gains on an H200, where the baseline comes close to the rate of a read: other blocks load while a
           block waits at its barriers.  `shuffle`: lanes read registers of each other; one barrier is left.
           `shuffle_wide`: 16-byte loads.  `warp_per_row`: no barrier and no shared memory.  `fixed_point`: redux.sync
           adds integers over a warp in one instruction.
           cpu: `many_chains`: 128 sums at the same time, in eight registers.
Breaks     Few long rows: a block a row leaves multiprocessors idle, and rows must be cut into parts. `fixed_point` must
           know the range of the elements; it rounds to 2^-30 of the largest sum that a warp could have.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cuda": "reads from memory are the bound, and hide eight barriers a row"},
)
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("warp_reduce.cu"), host_source("warp_reduce.c")

WARPS = 8  # a block


@bench.workload(
    smoke={"rows": 37, "columns": 1021},
    cpu={"rows": 1 << 14, "columns": 2048},
    cuda={"rows": 1 << 18, "columns": 2048},
)
def inputs(rows, columns, device, generator):
    return {"a": 2 * torch.rand(rows, columns, device=device, generator=generator) - 1}


@bench.reference(tolerance=fp32_reduction)
def reference(a):
    return a.sum(1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=rows * (columns - 1))


shapes = [(1, 1), (1, 3), (5, 32), (257, 100), (9, 128), (7, 16384), (3, 40001)]
bench.awkward(*({"rows": rows, "columns": columns} for rows, columns in shapes))
cuda.reach(of="RBW", at_least=0.93)


def sums(a):
    """Memory for the sums."""
    return a.new_empty(a.shape[0])


block_a_row = launch(device_code, out=sums, grid=blocks(rows=1), block=32 * WARPS)
loops = loop(host_code, out=sums)

cuda.baseline(block_a_row("tree"), kind="reasonable")
cuda.variant(
    block_a_row("shuffle"),
    adds="warp shuffles",
    why="lanes add registers of each other: five steps without memory, and one barrier a row in place of eight",
)
cuda.variant(
    block_a_row("shuffle_wide"),
    builds_on="shuffle",
    adds="wide loads",
    why="16 bytes a load: a quarter of the load instructions for the same bytes",
)
cuda.variant(
    block_a_row("warp_per_row", grid=blocks(rows=WARPS)),
    builds_on="shuffle_wide",
    adds="warp a row",
    why="a warp that has a row to itself never meets the others: no barrier, and no shared memory",
)
cuda.variant(
    block_a_row("fixed_point", grid=blocks(rows=WARPS)),
    builds_on="warp_per_row",
    adds="redux",
    why="redux.sync adds an integer over 32 lanes in one instruction, where shuffles take five steps",
)

cpu.baseline(loops("one_chain"), kind="naive")
cpu.variant(
    loops("many_chains"),
    adds=("independent chains", "simd"),
    why="128 sums in eight registers: sixteen additions an instruction, of which none waits for another",
)


@bench.yardstick(device=("cpu", "cuda"), name="sum", why="torch.sum over the last dimension")
class Sum:
    def prepare(self, a):
        self.out = sums(a)

    def run(self, a):
        return torch.sum(a, 1, out=self.out)
