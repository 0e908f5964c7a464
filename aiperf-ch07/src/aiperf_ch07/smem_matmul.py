"""Reuse through shared memory: fetch an element once, and use it 32 times.

Question    A matrix product reads each element n times. How much does a tile in shared memory save, and what binds
            then?
Numbers     C = A B for 4096 x 4096 float32: 137 GFLOP. With an element of C a thread, four multiply-adds read four
            words of B and 16 bytes of A from shared memory: 10 words for 8 FLOP pairs with two elements share six.
Prediction  L1 already serves the baseline's neighbours, so tiles gain less than 32x: 1.2 to 2x. Two elements a thread
            read 6 words in place of 10: up to 1.7x. A cheaper fill gains nothing: a tile is filled once and read 32
            times.
Limits      With one or two elements a thread, shared memory binds far below the multiply-adds of the chip. More
            elements in registers are `ch09.micro_tiling_matmul`.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("smem_matmul.cu"), host_source("smem_matmul.c")

TILE = 32


@bench.workload(smoke={"n": 67}, cpu={"n": 768}, cuda={"n": 4096})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in ("a", "b")}


@bench.reference(tolerance=fp32_reduction)
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3, precision="fp32")


bench.awkward(n=(1, 31, 32, 100, 257))
cuda.reach(of="speedup", at_least=1.8)


def tiles(n):
    """A block for each tile of C."""
    return -(-n // TILE), -(-n // TILE)


product = launch(device_code, out="a", grid=tiles, block=(TILE, TILE))
loops = loop(host_code, out="a")

cuda.baseline(product("one_output", grid=lambda n: (-(-n // TILE), -(-n // 8)), block=(TILE, 8)), kind="naive")
cuda.variant(
    product("tiled"),
    adds="tiles in shared memory",
    why="an element that lies in shared memory is read there 32 times for one fetch from global memory",
)
cuda.variant(
    product("wide_fill"),
    builds_on="tiled",
    adds="wide fill",
    why="a quarter of the accesses fill a tile",
    teaches="a tile is filled once and read 32 times: the reads are the bound, and a cheaper fill gains nothing",
)
cuda.variant(
    product("two_outputs", block=(TILE, TILE // 2)),
    builds_on="wide_fill",
    adds="two elements a thread",
    predict="1.4 to 2.4x: 6 words of shared memory for 8 multiply-adds in place of 10, and half of the addresses",
    why="what is read of B serves two elements: six reads of shared memory for eight multiply-adds, not ten",
)

cpu.baseline(loops("one_output"), kind="naive")
cpu.variant(
    loops("by_rows"),
    adds="loop order",
    why="rows of B and C are lines used whole, and neighbours are multiplied by one SIMD instruction",
)
cpu.variant(
    loops("blocked"),
    builds_on="by_rows",
    adds="cache blocking",
    why="a block of B is fetched once for 64 rows of A, and read from the second-level cache in between",
)


@bench.yardstick(device=("cpu", "cuda"), why="the library's product in full float32: oneDNN or MKL, cuBLAS")
class Mm:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)
