"""A matrix product for Hopper's tensor cores: stages under way first, then roles, then blocks that stay.

Question    wgmma multiplies as fast as operands arrive in shared memory. Which mechanism keeps it fed?
Numbers     C = A B^T for bfloat16, 8192^3: 1.1 TFLOP, 1.4 ms at the rate of cuBLAS. A block has tiles of 128 x 256 and
            steps of 64 along k: 49 KB by TMA, 4.2 MFLOP, 1024 cycles of an SM's tensor cores. TMA takes about as long
            from L2.
Prediction  With one stage copy and product alternate: half of the rate. With four under way the product is the bound:
            about 2x. Roles of warps and blocks that stay then only shorten the start and the end of a tile, a twentieth
            at k = 8192 and a third at k = 512 (`--size short`).
Limits      Few tiles, or tiles that fill the chip badly: none of this helps them. Blocks share operands in L2 alone,
            and results go from registers to memory, in pieces of half a sector. k is a multiple of 8.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import cuda_source, grid_that_fills, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_90a")
device_code = cuda_source("warp_specialized_gemm.cu", archs=("sm_90a",))

BM, BN, BK, STAGES = 128, 256, 64, 4
WARPGROUP = 128
SWIZZLE_BYTES = 2 * BK


@bench.workload(
    smoke={"m": 131, "n": 270, "k": 328},
    cuda={"m": 8192, "n": 8192, "k": 8192},
    cube={"m": 4096, "n": 4096, "k": 4096},
    wide={"m": 4096, "n": 28672, "k": 4096},
    short={"m": 8192, "n": 8192, "k": 512},
)
def inputs(m, n, k, device, generator):
    a = torch.randn(m, k, device=device, generator=generator)
    b = torch.randn(n, k, device=device, generator=generator)
    return {"a": a.bfloat16(), "b": b.bfloat16()}


@bench.reference(tolerance=bf16)
def reference(a, b):
    return a @ b.T


@bench.cost
def cost(m, n, k):
    return Cost(bytes_read=2 * (m + n) * k, bytes_written=2 * m * n, flops=2 * m * n * k, precision="bf16")


# One element; edges in every direction; fewer steps than stages; several tiles a block.
shapes = [(1, 1, 8), (64, 256, 64), (129, 257, 72), (1000, 515, 1032), (2500, 4100, 40)]
bench.awkward(*({"m": m, "n": n, "k": k} for m, n, k in shapes))
cuda.reach(of="time:mm", at_most=1 / 0.93)
for size in ("cube", "wide"):
    cuda.reach(of="time:mm", at_most=1 / 0.85, size=size)
bench.sass("pipelined", has=("HGMMA", "UTMALDG"), arch="sm_90a")
bench.sass("specialized", has=("HGMMA", "UTMALDG", "USETMAXREG"), arch="sm_90a")


def product_like(a, b):
    """Memory for the product."""
    return a.new_empty(a.shape[0], b.shape[0])


def stage_bytes(count):
    """The shared memory of `count` stages."""
    return 2 * (BM + BN) * BK * count


def tiles(m, n):
    """The number of tiles of C."""
    return -(-m // BM) * -(-n // BN)


def resident(m, n):
    """A grid of blocks that stay: as many as the chip holds, or fewer, so that each has a tile."""
    return min(tiles(m, n), grid_that_fills(device_code.kernel("specialized"), 3 * WARPGROUP, stage_bytes(STAGES)))


def rows_map(matrix, rows):
    """The tensor map for boxes of `rows` rows and the columns of a step."""
    return tensor_map(matrix, (rows, BK), swizzle_bytes=SWIZZLE_BYTES)


product = launch(
    device_code,
    out=product_like,
    make={"a_map": lambda a: rows_map(a, BM), "b_map": lambda b: rows_map(b, BN)},
    grid=tiles,
    block=3 * WARPGROUP,
    shared_bytes=stage_bytes(STAGES),
)

cuda.baseline(product("one_stage", block=2 * WARPGROUP, shared_bytes=stage_bytes(1)), kind="reasonable")
cuda.variant(
    product("pipelined", block=2 * WARPGROUP),
    adds="pipeline stages",
    why="TMA fills three other stages while the tensor cores multiply the oldest, asynchronously too",
    predict="1.4 to 2.2x: copy and product of a step take about as long, and overlap",
)
cuda.variant(
    product("specialized"),
    builds_on="pipelined",
    adds="warp specialisation",
    why="a warp that never multiplies asks for operands as soon as a place is empty: no barrier for all in each step",
    teaches="products of 1024 cycles hide the barrier of a step: with four stages under way it costs nothing who asks",
)
cuda.variant(
    product("persistent", kernel="specialized", grid=resident),
    builds_on="specialized",
    adds="persistent blocks",
    why="a block that stays has the next tile's operands under way while it stores this one, and starts once",
    teaches="at k = 8192 a tile is long, and its start and end a twentieth: blocks that stay pay at `--size short`",
)


@cuda.yardstick(why="the library's product, cuBLAS")
class Mm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.mm(a, b.T, out=self.out)
