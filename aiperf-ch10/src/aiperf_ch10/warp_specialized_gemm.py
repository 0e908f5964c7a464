"""Warp specialisation: one warp asks for operands, and the others do nothing but multiply.

Workload   C = A B^T for bfloat16, both with rows along k: 8192^3, with `--size cube` 4096^3, with `--size wide` 4096 x
           28672 x 4096, the up-projection of a large model.
Baseline   Tiles of 128 x 256 by wgmma, out of four stages that the copy engine fills. All warps are alike: after each
           step the block meets at a barrier, and one of its threads asks for a later step.
Variants   `specialized`: one warpgroup asks for operands, two multiply. They meet through barriers in shared memory, in
           one direction each, and the two that multiply have the registers that the first does not need.
           `persistent`: a block takes tile after tile, so that the operands of the next are under way while this one's
           results are stored.  `ping_pong`: the two warpgroups multiply different tiles of 64 x 256, in turn: one
           stores while the other multiplies.
Breaks     Few tiles, or tiles that fill the chip badly: none of this helps them. Operands are not shared between blocks
           (multicast), and results go from registers to memory. Tiles of 64 rows read B twice as often, which may cost
           `ping_pong` more than it gains. Rows start at multiples of 16 bytes, so that k is a multiple of 8.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import cuda_source, grid_that_fills, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cuda": "four stages under way keep the tensor cores busy, whichever warps ask for the operands"},
)
cuda = bench.on("cuda", requires="sm_90a")
device_code = cuda_source("warp_specialized_gemm.cu", archs=("sm_90a",))

BM, BN, BK = 128, 256, 64
WARPGROUP = 128
SWIZZLE_BYTES = 2 * BK


@bench.workload(
    smoke={"m": 131, "n": 270, "k": 328},
    cuda={"m": 8192, "n": 8192, "k": 8192},
    cube={"m": 4096, "n": 4096, "k": 4096},
    wide={"m": 4096, "n": 28672, "k": 4096},
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
cuda.reach(of="time:mm", at_most=1 / 0.9)
for size in ("cube", "wide"):
    cuda.reach(of="time:mm", at_most=1 / 0.85, size=size)


def product_like(a, b):
    """Memory for the product."""
    return a.new_empty(a.shape[0], b.shape[0])


def stage_bytes(rows, count):
    """The shared memory of `count` stages for tiles of `rows` rows."""
    return 2 * (rows + BN) * BK * count


def tiles(m, n, rows=BM):
    """The number of tiles of C."""
    return -(-m // rows) * -(-n // BN)


def resident(kernel, rows, count):
    """A grid of blocks that stay: as many as the chip holds, or fewer, so that each has a tile."""

    def grid(m, n):
        fit = grid_that_fills(device_code.kernel(kernel), 3 * WARPGROUP, stage_bytes(rows, count))
        return min(tiles(m, n, rows), fit)

    return grid


def rows_map(matrix, rows):
    """The tensor map for boxes of `rows` rows and the columns of a step."""
    return tensor_map(matrix, (rows, BK), swizzle_bytes=SWIZZLE_BYTES)


product = launch(
    device_code,
    out=product_like,
    make={"a_map": lambda a: rows_map(a, BM), "b_map": lambda b: rows_map(b, BN)},
    grid=tiles,
    block=3 * WARPGROUP,
    shared_bytes=stage_bytes(BM, 4),
)

cuda.baseline(product("all_alike", block=2 * WARPGROUP), kind="reasonable")
cuda.variant(
    product("specialized"),
    adds="warp specialisation",
    why="a warp that never multiplies asks for operands as soon as a place is empty: no barrier for all in each step",
)
cuda.variant(
    product("persistent", kernel="specialized", grid=resident("specialized", BM, 4)),
    builds_on="specialized",
    adds="persistent blocks",
    why="a block that stays has the next tile's operands under way while it stores this one, and starts once",
)
cuda.variant(
    product(
        "ping_pong",
        make={"a_map": lambda a: rows_map(a, BM // 2)},
        grid=resident("ping_pong", BM // 2, 5),
        shared_bytes=stage_bytes(BM // 2, 5),
    ),
    builds_on="persistent",
    adds="ping-pong tiles",
    why="each warpgroup has tiles of its own: the tensor cores multiply for one while the other stores",
)


@cuda.yardstick(why="the library's product, cuBLAS")
class Mm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.mm(a, b.T, out=self.out)
