"""Reduction: a short row belongs to a warp, not to a block.

Question    How many threads should add up a row of 256 values: a block, a warp, or half a warp?
Numbers     2^21 rows of 256 float32, 2.1 GB that are read once: 0.49 ms at the rate of reads. Values lie evenly between
            -1 and 1, so that most of a sum cancels.
Prediction  A block a row has 1 KiB in flight and meets at eight barriers: of 8 blocks on an SM, 8 KiB at most, where
            the latency of memory asks for some 32. A warp a row has 32 bytes a lane, 64 KiB an SM, and no barrier: over
            2x.
Limits      Rows of 2048 (`--size long`): a block a row then has enough bytes in flight, and no step gains. Few long
            rows leave SMs idle unless a row is cut into parts. redux.sync adds a warp's integers in one instruction: in
            place of five shuffles it gains nothing beside memory, and floats lose digits.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("warp_reduce.cu"), host_source("warp_reduce.c")

WARPS = 8  # a block


@bench.workload(
    smoke={"rows": 37, "columns": 1021},
    cpu={"rows": 1 << 14, "columns": 2048},
    cuda={"rows": 1 << 21, "columns": 256},
    short={"rows": 1 << 23, "columns": 64},
    long={"rows": 1 << 18, "columns": 2048},
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
cuda.reach(of="RBW", at_least=0.90)
cuda.reach(of="RBW", at_least=0.90, size="short", implementation="half_warp")
bench.sass("warp_per_row", has=("SHFL", "LDG.32"), lacks="BAR", arch="sm_90")
bench.sass("wide", has=("SHFL", "LDG.128"), lacks="BAR", arch="sm_90")
bench.sass("half_warp", has=("SHFL", "LDG.128"), lacks="BAR", arch="sm_90")


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
    block_a_row("warp_per_row", grid=blocks(rows=WARPS)),
    builds_on="shuffle",
    adds="warp a row",
    why="32 bytes a lane in flight in place of 4, and warps that never wait for each other: no barrier is left",
    predict="at least 1.5x: 64 KiB in flight an SM in place of 8",
)
cuda.variant(
    block_a_row("wide", grid=blocks(rows=WARPS)),
    builds_on="warp_per_row",
    adds="wide loads",
    why="the same 32 bytes a lane in two loads of 16 bytes: a quarter of the load instructions",
    teaches="bytes in flight, not load instructions, are the bound: eight loads of 4 bytes do as well",
)
cuda.variant(
    block_a_row("half_warp", grid=blocks(rows=2 * WARPS)),
    builds_on="wide",
    adds="half a warp a row",
    why="16 lanes read a row of 64 floats at 16 bytes each (`--size short`), where a warp leaves half of them idle",
    teaches="a row of 256 floats feeds all lanes of a warp already: fewer lanes a row pay for shorter rows",
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
