"""Register tiles: registers are the last tile, and the only one that is fast enough.

Question    What must a float32 product do besides its multiply-adds, and how much of that can be hidden?
Numbers     C = A B, 4096 x 4096 x 4096, full float32: 137 GFLOP, 2.05 ms of multiply-adds at 128 a cycle and SM. Shared
            memory has one wavefront a cycle for the whole SM.
Prediction  With an output a thread, four warps' multiply-adds take a cycle and their reads eight, so at most 8x. With 8
            x 8 outputs the 64 multiply-adds of four warps take 64 cycles, and so do 16 reads each: then the time of a
            tile from L2 shows, which a prefetch hides.
Limits      Few rows or columns: a GPU has too few tiles of 128 x 128, and what overhangs is computed for nothing;
            `--size deep` has 256 tiles for 264 places. Half precision and TF32, which tensor cores multiply many times
            faster. It is part 2 of `ch07.smem_matmul`, whose tile the baseline is.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("micro_tiling_matmul.cu")
# C11 keeps a multiplication and an addition apart, unless it is told that one instruction may do both.
host_code = host_source("micro_tiling_matmul.c", options=("-ffp-contract=fast",))

TILE, BLOCK_TILE = 32, 128


@bench.workload(
    smoke={"rows": 67, "columns": 131, "depth": 37},
    cpu={"rows": 768, "columns": 768, "depth": 768},
    cuda={"rows": 4096, "columns": 4096, "depth": 4096},
    deep={"rows": 4096, "columns": 1024, "depth": 8192},
)
def inputs(rows, columns, depth, device, generator):
    return {
        "a": torch.randn(rows, depth, device=device, generator=generator),
        "b": torch.randn(depth, columns, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(a, b):
    return a @ b


@bench.cost
def cost(rows, columns, depth):
    return Cost(
        bytes_read=4 * (rows + columns) * depth, bytes_written=4 * rows * columns, flops=2 * rows * columns * depth
    )


# One element; less than a tile; whole tiles; tiles that overhang, with rows that are and are not multiples of 16 bytes.
bench.awkward(
    {"rows": 1, "columns": 1, "depth": 1},
    {"rows": 5, "columns": 17, "depth": 3},
    {"rows": 128, "columns": 128, "depth": 32},
    {"rows": 129, "columns": 260, "depth": 44},
    {"rows": 259, "columns": 129, "depth": 277},
)
cuda.reach(of="FMA:fp32", at_least=0.65)
cuda.reach(of="time:library", at_most=1.14)  # 0.88 of cuBLAS
bench.sass("product", has=("LDG.128", "STS.128", "FFMA"))


def product(a, b):
    """Memory for the product."""
    return a.new_empty(a.shape[0], b.shape[1])


tiles = launch(device_code, out=product, grid=blocks(columns=BLOCK_TILE, rows=BLOCK_TILE), block=256)
loops = loop(host_code, out=product)

cuda.baseline(
    tiles("one_output", grid=blocks(columns=TILE, rows=TILE), block=(TILE, TILE)),
    kind="reasonable",
)
cuda.variant(
    tiles("register_tile", kernel="product<APART, false>"),
    adds="register tile",
    why="what is read of A serves eight elements of C, and so does what is read of B: a quarter of a read for a "
    "multiply-add, not two",
    predict="at most 8x: shared memory is read for 8 cycles beside each cycle of multiply-adds",
)
cuda.variant(
    tiles("wide_reads", kernel="product<FOURS, false>"),
    builds_on="register_tile",
    adds="wide shared reads",
    why="a thread's rows and columns lie in fours, so that 4 reads of 16 bytes do what 16 did",
)
cuda.variant(
    tiles("prefetched", kernel="product<FOURS, true>"),
    builds_on="wide_reads",
    adds="register prefetch",
    why="the next tile is on its way to registers while this one is multiplied, and goes to the other half of shared "
    "memory: no wait for L2, and one barrier a step",
)
cuda.variant(
    tiles("warp_tiles", kernel="product<WARPS, true>"),
    builds_on="prefetched",
    adds="warp tiles",
    why="for half of its tile a warp of 8 x 4 threads reads 12 different pieces of 16 bytes, one of 2 x 16 reads 18",
    teaches="shared memory is no longer the bound: its reads hide behind the multiply-adds, and fewer gain nothing",
)

cpu.baseline(loops("blocked"), kind="reasonable")
cpu.variant(
    loops("register_tile"),
    adds="register tile",
    why="twelve vectors of C stay in registers while they are summed: two loads of B and six of A for twelve "
    "multiply-adds, where each needed two loads and a store",
)


@bench.yardstick(device=("cpu", "cuda"), why="the library's product in full float32: oneDNN or MKL, cuBLAS")
class Library:
    def prepare(self, a, b):
        self.out = product(a, b)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)
