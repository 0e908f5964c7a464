"""Wave quantization: 133 tiles on 132 multiprocessors take as long as 264.

Workload   A polynomial at n points, in tiles of 4096 points that keep a multiprocessor busy each (cpu: a processor).
           There is a tile more than multiprocessors.
Baseline   A block a tile, as most kernels are launched: when all others are done, one multiprocessor still computes the
           last tile.  cpu: three tiles on two processors.
Variants   `half_tiles`: twice as many tiles of half the size, so that the last wave is half as long.  `even_shares`: as
           many blocks as multiprocessors (cpu: threads as processors), each with the same number of points; the last
           tile is split among them.
Breaks     Many waves: of ten waves the last is a small part. Smaller tiles cost where they need more traffic, as those
           of a matrix product do. Where it takes several tiles to keep a multiprocessor busy, the last wave is shorter.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("wave_quantization.cu"), host_source("wave_quantization.c")

TILE = 4096
THREADS = 512  # of a block, with eight points each
MOST_BYTES = 96 << 10  # of coefficients in shared memory


# An H200 and an H100 have 132 multiprocessors; `--set tiles=109` is for an A100.
@bench.workload(
    smoke={"tiles": 3, "degree": 17},
    cpu={"tiles": 3, "degree": 1 << 14},
    cuda={"tiles": 133, "degree": 8191},
    two_waves={"tiles": 265, "degree": 8191},
    four_waves={"tiles": 529, "degree": 8191},
)
def inputs(tiles, degree, device, generator):
    return {
        "x": 2 * torch.rand(tiles * TILE, device=device, generator=generator) - 1,
        "coefficients": torch.randn(degree + 1, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(x, coefficients):
    y = torch.zeros_like(x)
    for one in coefficients.flip(0):
        y.mul_(x).add_(one)
    return y


@bench.cost
def cost(tiles, degree):
    n = tiles * TILE
    return Cost(bytes_read=4 * (n + degree + 1), bytes_written=4 * n, flops=2 * n * degree)


# A constant, a line; fewer and more tiles than a processor or a small GPU has.
bench.awkward(*({"tiles": tiles, "degree": degree} for tiles, degree in ((1, 0), (2, 1), (5, 1021), (133, 3))))
for size in ("cuda", "two_waves", "four_waves"):
    cuda.reach(of="FMA:fp32", at_least=0.90, size=size, implementation="even_shares")
cpu.reach(of="time:tile_per_task", at_most=0.77, implementation="even_shares")


def coefficient_bytes(degree):
    """Shared memory for the coefficients. Raises `SkipError` where there is too little."""
    size = 16 * (degree // 4 + 1)
    if size > MOST_BYTES:
        raise SkipError(f"holds {MOST_BYTES // 4} coefficients in shared memory, and these are {degree + 1}")
    return size


def multiprocessors(degree):
    """A block for each multiprocessor."""
    kernel = device_code.kernel("even_shares")
    return grid_that_fills(kernel, THREADS, coefficient_bytes(degree), per_multiprocessor=1)


tiles_on = launch(
    device_code,
    out="x",
    make={"n": lambda tiles: tiles * TILE},
    kernel="tile_per_block",
    grid=blocks(tiles=1),
    block=THREADS,
    shared_bytes=coefficient_bytes,
)
loops = loop(host_code, out="x", make={"n": lambda tiles: tiles * TILE, "piece": TILE}, kernel="in_pieces")

cuda.baseline(tiles_on("tile_per_block"), kind="reasonable")
cuda.variant(
    tiles_on("half_tiles", grid=lambda tiles: 2 * tiles, block=THREADS // 2),
    adds="smaller tiles",
    why="a wave of half the length: what is left for the last one leaves the others idle for half the time",
)
cuda.variant(
    tiles_on("even_shares", kernel="even_shares", grid=multiprocessors),
    adds=("persistent grid", "even shares"),
    why="a block for each multiprocessor, and the same number of points for each block: there is no last wave",
)

cpu.baseline(loops("tile_per_task"), kind="reasonable")
cpu.variant(
    loops("half_tiles", make={"piece": TILE // 2}),
    adds="smaller tiles",
    why="six halves are three for each of two processors, where three tiles were two and one",
)
cpu.variant(
    loops("even_shares", kernel="even_shares"),
    adds="even shares",
    why="each processor has the same number of points, whatever the numbers of tiles and processors are",
)
