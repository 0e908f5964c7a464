"""Wave quantization: 133 tiles on 132 SMs take as long as 264.

Question    What does it cost if there is one tile more than SMs?
Numbers     A polynomial of degree 4095 at the points of 133 tiles of 8192. A block of 512 threads with 16 points each
            fills an SM: its registers leave no room for a second block. 4.5e9 multiply-adds take 133 us at 128 a cycle,
            an SM and 1.98 GHz; 9 MB of memory are no bound.
Prediction  A block a tile, as most kernels are launched, takes two waves, of which the second is one tile. Halves of
            tiles take 3 half waves of 4: 1.33x. Equal shares for all SMs take 133 / 132 of a wave: 1.98x.
Limits      Many waves: with ten, the last one is a small part (`--size four_waves`). Smaller tiles cost where they need
            more traffic, as those of a matrix product do. Where it takes several tiles to keep an SM busy, the last
            wave is shorter than the others. Shares of a tile need work that can be split anywhere. cpu: three tiles on
            two processors.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("wave_quantization.cu"), host_source("wave_quantization.c")

TILE = 8192
THREADS = 512  # of a block, with 16 points each
MOST_BYTES = 96 << 10  # of coefficients in shared memory


# An H200 and an H100 have 132 SMs; `--set tiles=109` is for an A100.
@bench.workload(
    smoke={"tiles": 3, "degree": 17},
    cpu={"tiles": 3, "degree": 1 << 13},
    cuda={"tiles": 133, "degree": 4095},
    two_waves={"tiles": 265, "degree": 4095},
    four_waves={"tiles": 529, "degree": 4095},
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
# Point and sum of a chain are registers, as all operands of the ceiling: what is left are coefficients and the loop.
for size in ("cuda", "two_waves", "four_waves"):
    cuda.reach(of="FMA3:fp32", at_least=0.90, size=size, implementation="even_shares")
cpu.reach(of="time:tile_per_task", at_most=0.77, implementation="even_shares")


def coefficient_bytes(degree):
    """Shared memory for the coefficients. Raises `SkipError` where there is too little."""
    size = 16 * (degree // 4 + 1)
    if size > MOST_BYTES:
        raise SkipError(f"holds {MOST_BYTES // 4} coefficients in shared memory, and these are {degree + 1}")
    return size


def each_sm(degree):
    """A block for each SM."""
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
    predict="1.2 to 1.34x: 266 halves are three halves of a wave, where 133 tiles are two waves",
    why="a wave of half the length: what is left for the last one leaves the others idle for half the time",
)
cuda.variant(
    tiles_on("even_shares", kernel="even_shares", grid=each_sm),
    adds=("persistent grid", "even shares"),
    predict="1.8 to 1.99x: 133 / 132 of a wave, where 133 tiles are two waves",
    why="a block for each SM, and the same number of points for each block: there is no last wave",
)

bench.sass("tile_per_block", has=("FFMA", "LDS.128"), lacks=("LDL", "STL"))
bench.sass("even_shares", has=("FFMA", "LDS.128"), lacks=("LDL", "STL"))

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
