"""Asynchronous copies: load the next tile while this one is in use.

Question    What does a block gain that loads its next tile early, where no other block fills its waits?
Numbers     y = p(t) for 2^27 float32 in tiles of 2048: t is the mean of an element and its mirror image in the tile, so
            that a tile must be there as a whole; p has degree 32, of which the coefficients are inputs. A block of 256
            threads on each SM, as in kernels whose tables fill shared memory. At the rate of a copy a tile takes 0.50
            us, 0.25 ms for all; its multiply-adds take 0.26 us at 1.98 GHz.
Prediction  Alone, a tile takes the sum of its wait for memory and its arithmetic. With one tile ahead it takes the
            longer of both, at most 2x; with two tiles ahead two share a wait. Four blocks on an SM do the same without
            any of this.
Limits      Polynomials of low degree leave nothing to overlap; with high ones arithmetic is the bound, and the wait is
            a small part. Where enough blocks fit on an SM, they overlap by themselves. cpu: a processor's own
            prefetcher sees a stream coming, and `prefetched` gains nothing.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device", no_gain_on={"cpu": "hardware prefetchers see a stream coming"})
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("async_prefetch.cu"), host_source("async_prefetch.c")

TILE, THREADS = 2048, 256
MANY = 4  # blocks an SM, where there is more than one


@bench.workload(
    smoke={"n": 12289, "degree": 13},
    cpu={"n": 1 << 22, "degree": 96},
    cuda={"n": 1 << 27, "degree": 32},
)
def inputs(n, degree, device, generator):
    return {
        "a": 2 * torch.rand(n, device=device, generator=generator) - 1,
        # They fall off, as those of a series do: sums of terms that are all alike may nearly cancel, and lose their
        # digits.
        "coefficients": torch.randn(degree + 1, device=device, generator=generator)
        / torch.arange(1, degree + 2, device=device),
    }


@bench.reference(tolerance=fp32)
def reference(a, coefficients):
    t = torch.cat([(tile + tile.flip(0)) / 2 for tile in a.split(TILE)]) if a.numel() % TILE else mirrored(a)
    y = torch.full_like(t, coefficients[-1])
    for power in range(coefficients.numel() - 2, -1, -1):
        y.mul_(t).add_(coefficients[power])
    return y


@bench.cost
def cost(n, degree):
    # Horner's rule: a multiply-add a degree. For given coefficients there is no shorter way without preparing them.
    return Cost(bytes_read=4 * (n + degree + 1), bytes_written=4 * n, flops=2 * degree * n)


def mirrored(a):
    """The mean of each element and its mirror image, where all tiles are whole."""
    tiles = a.view(-1, TILE)
    return ((tiles + tiles.flip(1)) / 2).view(-1)


shapes = [(1, 1), (2047, 4), (2048, 5), (2049, 96), (1000003, 7), (3145728, 3)]
bench.awkward(*({"n": n, "degree": degree} for n, degree in shapes))
# A tile is read, computed and written at the same time: what is left is a barrier, and the addresses of a tile.
cuda.reach(of="SOL", at_least=0.8)


def resident(per_sm):
    """A rule for a grid of so many blocks an SM, which go from tile to tile."""

    def grid(n, degree):
        kernel = device_code.kernel("load_then_compute")
        return min(-(-n // TILE), grid_that_fills(kernel, THREADS, stages(1)(degree), per_multiprocessor=per_sm))

    return grid


def stages(count):
    """Shared memory for so many tiles, and for the coefficients."""
    return lambda degree: 4 * (count * TILE + degree + 1)


tiles = launch(device_code, out="a", grid=resident(1), block=THREADS, shared_bytes=stages(1))
loops = loop(host_code, out="a")

cuda.baseline(tiles("load_then_compute"), kind="reasonable")
cuda.variant(
    tiles("many_blocks", kernel="load_then_compute", grid=resident(MANY)),
    adds="occupancy",
    why="four blocks on an SM: while one waits for its tile, others compute; the same remedy, paid with shared memory",
)
cuda.variant(
    tiles("register_prefetch"),
    adds="register prefetch",
    why="the next tile's loads are under way in registers while this one is computed",
)
cuda.variant(
    tiles("two_stages", shared_bytes=stages(2)),
    adds="asynchronous copies",
    why="cp.async brings the next tile into shared memory during the computation, and needs no registers for it",
)
cuda.variant(
    tiles("three_stages", shared_bytes=stages(3)),
    builds_on="two_stages",
    adds="deeper pipeline",
    why="two tiles under way instead of one: a tile is computed faster than it arrives, and so two have time to",
)
cuda.variant(
    tiles("bulk_stages", shared_bytes=stages(3)),
    requires="sm_90",
    builds_on="three_stages",
    adds="bulk copies",
    why="one instruction of one thread asks TMA for a whole tile, where cp.async takes one for every 16 bytes",
    teaches="a tile takes two instructions of cp.async a thread, beside hundreds of others: there is little to save",
)
for kernel in ("load_then_compute", "register_prefetch"):
    bench.sass(kernel, has=("LDG.128", "STS.128", "FFMA"), lacks=("LDGSTS", "LDL", "STL"))
for kernel in ("two_stages", "three_stages"):
    bench.sass(kernel, has=("LDGSTS.128", "FFMA"), lacks=("LDG.128", "LDL", "STL"))
bench.sass("bulk_stages", has=("UBLKCP", "FFMA"), lacks=("LDGSTS", "LDG.128", "LDL", "STL"), arch="sm_90")

cpu.baseline(loops("load_then_compute"), kind="reasonable")
cpu.variant(loops("prefetched"), adds="software prefetch", why="the next tile is asked for before this one is computed")
