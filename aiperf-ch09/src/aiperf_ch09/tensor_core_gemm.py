"""Tensor cores are fast enough to wait for everything: the mechanisms that keep them fed, one at a time.

Question    From multiply-adds in float32 to the library's product in bfloat16: what does each mechanism of Hopper give?
Numbers     C = A B^T, bfloat16 with float32 sums, 8192^3: 1.1 TFLOP. Tensor cores do 4096 FLOP a cycle and SM, so that
            a step of a tile of 128 x 256 by 64 of k takes 1024 cycles and 48 KB of operands: 48 bytes of L2 a cycle.
Prediction  mma.sync at least 5x: its peak is about 10 times that of float32. wgmma has 16 times, but with one stage
            copy and product alternate, and half of that is about what mma.sync has with three stages. Four stages hide
            the copy. Then the product is the bound, and the rest is small: a cluster of two reads 32 KB a step, not 48;
            TMA stores whole lines beside the next tile.
Limits      k of 8192 is 128 steps a tile, which hide its start and its end; with k = 512 (`--size short`) they are a
            third of the time, and blocks that stay and stores by TMA pay. k is a multiple of 8 but for the baseline,
            and for `tma_store` n too. Tiles that fill the chip badly: 2048 tiles are 15.5 waves of 132 SMs.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import clusters_that_fill, cuda_source, grid_that_fills, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_80")
device_code = cuda_source("tensor_core_gemm.cu")
hopper_code = cuda_source("tensor_core_gemm_wgmma.cu", archs=("sm_90a",))

SIDE, MMA_STAGES, MMA_THREADS = 128, 3, 128  # of the kernels without wgmma
BM, BN, BK, STAGES = 128, 256, 64, 4
WARPGROUP = 128
SWIZZLE_BYTES = 2 * BK
STAGE_BYTES = 2 * (BM + BN) * BK
PIECES_BYTES = 2 * 2 * 2 * 64 * 64  # two places of 64 x 64 results for each of two warpgroups


@bench.workload(
    smoke={"m": 131, "n": 272, "k": 328},
    cuda={"m": 8192, "n": 8192, "k": 8192},
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


# One element; edges in every direction, of tiles and of clusters; fewer steps than stages; several tiles a block; rows
# that only the baseline takes.
shapes = [(1, 1, 8), (64, 256, 64), (129, 257, 72), (1000, 520, 1032), (2500, 4104, 40), (67, 131, 37)]
bench.awkward(*({"m": m, "n": n, "k": k} for m, n, k in shapes))
cuda.reach(of="time:mm", at_most=1 / 0.97)  # the same instructions and tiles as cuBLAS; 3 % for its choice of schedules
cuda.reach(of="time:mm", at_most=1 / 0.9, size="short")  # a tenth of a tile of 8 steps is the store that nothing hides
bench.sass("register_tiles", has=("FFMA", "LDS.128"), lacks="HMMA")
bench.sass("mma_sync", has=("HMMA", "LDSM", "LDGSTS"), lacks="HGMMA")
bench.sass("one_stage", has=("HGMMA", "UTMALDG"), arch="sm_90a")
bench.sass("pipelined", has=("HGMMA", "UTMALDG"), lacks="USETMAXREG", arch="sm_90a")
bench.sass("specialized", has=("HGMMA", "UTMALDG", "USETMAXREG"), lacks="UTMALDG.MULTICAST", arch="sm_90a")
bench.sass("multicast", has=("HGMMA", "UTMALDG.MULTICAST", "STG"), lacks="UTMASTG", arch="sm_90a")
bench.sass("tma_store", has=("HGMMA", "UTMALDG.MULTICAST", "UTMASTG", "STSM"), lacks="STG", arch="sm_90a")


def product_like(a, b):
    """Memory for the product."""
    return a.new_empty(a.shape[0], b.shape[0])


def squares(m, n):
    """A block for each tile of 128 x 128."""
    return -(-m // SIDE) * -(-n // SIDE)


def whole_pieces(k):
    """Refuse rows that do not start at multiples of 16 bytes."""
    if k % 8:
        raise SkipError(f"takes k in multiples of 8, so that rows start at multiples of 16 bytes; this is {k}")


def tiles(m, n, cluster=1):
    """The number of tiles of C, each of a cluster of blocks."""
    return -(-m // (BM * cluster)) * -(-n // BN)


def resident(m, n):
    """A grid of blocks that stay: as many as the chip holds, or fewer, so that each has a tile."""
    return min(tiles(m, n), grid_that_fills(hopper_code.kernel("specialized"), 3 * WARPGROUP, STAGES * STAGE_BYTES))


def resident_pairs(kernel, shared_bytes):
    """The same for clusters of two, as a rule for a grid."""

    def grid(m, n):
        most = clusters_that_fill(hopper_code.kernel(kernel), 2, 3 * WARPGROUP, shared_bytes)
        return 2 * min(tiles(m, n, cluster=2), most)

    return grid


def rows_map(matrix, rows):
    """The tensor map for boxes of `rows` rows and 64 columns."""
    return tensor_map(matrix, (rows, BK), swizzle_bytes=SWIZZLE_BYTES)


simple = launch(device_code, out=product_like, grid=squares)
hopper = launch(
    hopper_code,
    out=product_like,
    make={"a_map": lambda a: rows_map(a, BM), "b_map": lambda b: rows_map(b, BN)},
    grid=tiles,
    block=3 * WARPGROUP,
    shared_bytes=STAGES * STAGE_BYTES,
)
half_of_b = {"b_map": lambda b: rows_map(b, BN // 2)}

cuda.baseline(simple("register_tiles"), kind="reasonable")
cuda.variant(
    simple(
        "mma_sync",
        make={"checked": whole_pieces},
        block=MMA_THREADS,
        shared_bytes=MMA_STAGES * 2 * 2 * SIDE * BK,
    ),
    adds=("tensor cores", "copies ahead"),
    why="a warp's instruction multiplies 16 x 16 by 16 x 8, 2048 multiply-adds in place of 32, and cp.async keeps two "
    "steps of operands under way",
    predict="at least 5x: the peak of mma.sync is about 10 times that of float32, and its warps also copy and read "
    "fragments",
)
cuda.variant(
    hopper("one_stage", block=2 * WARPGROUP, shared_bytes=STAGE_BYTES),
    requires="sm_90a",
    adds=("wgmma", "copy engine"),
    why="four warps multiply 64 x 256 from shared memory without fragments in registers, asynchronously; two "
    "instructions of one thread copy the operands of a step",
    predict="at least 5x: half of a peak of 16 times that of float32, as copy and product alternate",
)
cuda.variant(
    hopper("pipelined", block=2 * WARPGROUP),
    requires="sm_90a",
    builds_on="one_stage",
    adds="pipeline stages",
    why="TMA fills three other stages while the tensor cores multiply the oldest",
    predict="1.5 to 2.4x: copy and product of a step take about as long, and overlap; no step waits for the latency",
)
cuda.variant(
    hopper("specialized"),
    requires="sm_90a",
    builds_on="pipelined",
    adds="warp specialisation",
    why="a warp that never multiplies asks for operands as soon as a place is empty: no barrier for all in each step",
    predict="0.95 to 1.05x: a barrier of some 30 cycles is hidden by products of 1024",
    teaches="products of 1024 cycles hide the barrier of a step; the roles pay when something else must go on beside "
    "the products, as the next tile's operands do in the following steps",
)
cuda.variant(
    hopper("persistent", kernel="specialized", grid=resident),
    requires="sm_90a",
    builds_on="specialized",
    adds="persistent blocks",
    why="a block that stays has the next tile's operands under way while it stores this one, and starts once",
    predict="0.97 to 1.05x: the start and the end of a tile are some 4,000 cycles beside 131,000 of products",
    teaches="at k = 8192 a tile is long; blocks that stay pay at `--size short`, where it has 8,192 cycles of products",
)
cuda.variant(
    hopper("multicast", grid=resident_pairs("multicast", STAGES * STAGE_BYTES), cluster=2, make=half_of_b),
    requires="sm_90a",
    builds_on="persistent",
    adds="cluster multicast",
    why="two blocks with the same columns read half of B's rows each, for both: 32 KB of L2 a step and block, not 48",
    predict="0.98 to 1.12x: a third less to ask of L2, which shows as far as operands were late and in the power left",
    teaches="four stages had the operands in time: fewer bytes of L2 then save power alone, and a block waits for its "
    "neighbour",
)
cuda.variant(
    hopper(
        "tma_store",
        grid=resident_pairs("tma_store", STAGES * STAGE_BYTES + PIECES_BYTES),
        cluster=2,
        shared_bytes=STAGES * STAGE_BYTES + PIECES_BYTES,
        make={**half_of_b, "out_map": lambda out: rows_map(out, 64)},
    ),
    requires="sm_90a",
    builds_on="multicast",
    adds="stores by the copy engine",
    why="results go by stmatrix to shared memory and from there in whole lines, 16 + 4 instructions in place of 128 "
    "stores of half a sector, and the last of them beside the next tile's products",
    predict="0.99 to 1.06x: at most the 4,000 cycles of stores beside 131,000 of products; more at `--size short`",
    teaches="L2 merges halves of sectors, and no warp waits for a store: whole lines then only save instructions",
)


@cuda.yardstick(why="the library's product, cuBLAS")
class Mm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.mm(a, b.T, out=self.out)
