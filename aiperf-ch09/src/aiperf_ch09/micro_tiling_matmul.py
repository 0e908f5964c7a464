"""Register tiles: registers are the last tile, and the only one that is fast enough.

Workload   C = A B in float32, A of rows x depth, B of depth x columns. No TF32: multiply-adds of the full precision.
Baseline   cuda: tiles of 32 x 32 in shared memory, an element of C a thread.  cpu: blocks of B in the cache, rows of B
           added to rows of C.
Variants   cuda: `register_tile`: 8 x 8 elements a thread, in tiles of 128 x 128: 16 reads of shared memory for 64
           multiply-adds, not 2 for one.  `wide_reads`: neighbours in one 16-byte read.  `double_buffered`: the next
           tile is copied while this one is multiplied.  `warp_tiles`: the lanes of a warp lie in a rectangle of 4 x 8
           threads, not 2 x 16, and read fewer different words.
           cpu: `register_tile`: 6 x 16 elements in twelve vectors.
Breaks     Few rows or columns: a GPU has too few tiles of 128 x 128, and what overhangs is computed for nothing. Half
           precision and TF32, which tensor cores multiply many times faster.
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
cuda.reach(of="time:library", at_most=1.18)


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
    tiles("register_tile", kernel="product<false, false, false>"),
    adds="register tile",
    why="what is read of A serves eight elements of C, and so does what is read of B: a quarter of a read for a "
    "multiply-add, not two",
)
cuda.variant(
    tiles("wide_reads", kernel="product<true, false, false>"),
    builds_on="register_tile",
    adds="wide shared reads",
    why="a thread's rows and columns lie in fours, so that 4 reads of 16 bytes do what 16 did",
)
cuda.variant(
    tiles("double_buffered", kernel="product<true, true, false>"),
    builds_on="wide_reads",
    adds="asynchronous double buffer",
    why="the next tile is on its way to the other half of shared memory while this one is multiplied",
)
cuda.variant(
    tiles("warp_tiles", kernel="product<true, true, true>"),
    builds_on="double_buffered",
    adds="warp tiles",
    why="for half of its tile a warp of 4 x 8 threads reads 12 different pieces of 16 bytes, one of 2 x 16 reads 18",
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
