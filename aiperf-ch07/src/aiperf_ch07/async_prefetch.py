"""Asynchronous copies: load the next tile while this one is in use.

Workload   y = p(t) for n float32 in tiles of 4096: t is the mean of an element and of its mirror image in the tile (so
           that a tile must be there as a whole), p a polynomial of degree 96, of which the coefficients are inputs.
Baseline   cuda: load a tile into shared memory, wait, compute, wait. Four blocks share a multiprocessor, as in all
           variants: while a block waits, others compute.  cpu: a tile after the other.
Variants   cuda: `register_prefetch`: the next tile waits in registers.  `two_stages`: cp.async brings it to shared
           memory without registers.  `three_stages`: two tiles ahead. What it teaches: no gain, because a tile is
           computed in more time than it needs to arrive; stages only take shared memory.  `bulk_stages`: one thread
           asks the copy engine for whole tiles; on an H200 this loses to `three_stages`.
           cpu: `prefetched`: asks for the lines of the next tile. No gain is expected: the processor's own prefetcher
           sees a stream of lines coming.
Breaks     Enough blocks on a multiprocessor overlap loads and arithmetic without any of this: the gain over the
           baseline is what four blocks leave open. Polynomials of low degree: memory alone is the bound, and there is
           no arithmetic to overlap with.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device", no_gain_on={"cpu": "hardware prefetchers see a stream coming"})
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("async_prefetch.cu"), host_source("async_prefetch.c")

TILE, THREADS = 4096, 256
RESIDENT = 4  # blocks a multiprocessor, the same for all: 64 registers a thread, and at most 49 KiB a block


@bench.workload(
    smoke={"n": 12289, "degree": 13},
    cpu={"n": 1 << 22, "degree": 96},
    cuda={"n": 1 << 27, "degree": 96},
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


shapes = [(1, 1), (4095, 4), (4096, 5), (4097, 96), (1000003, 7), (3145728, 3)]
bench.awkward(*({"n": n, "degree": degree} for n, degree in shapes))
cuda.reach(
    of="SOL",
    at_least=0.88,
    cause="the ceiling counts multiply-adds alone, and loads, stores and addresses take issue slots beside them",
    shown_by="counter:smsp__inst_executed,sm__throughput",
)


def resident(n, degree):
    """As many blocks as fit on the chip at the same time; they go from tile to tile."""
    kernel = device_code.kernel("load_then_compute")
    return min(-(-n // TILE), grid_that_fills(kernel, THREADS, stages(1)(degree), per_multiprocessor=RESIDENT))


def stages(count):
    """Shared memory for so many tiles, and for the coefficients."""
    return lambda degree: 4 * (count * TILE + degree + 1)


tiles = launch(device_code, out="a", grid=resident, block=THREADS, shared_bytes=stages(1))
loops = loop(host_code, out="a")

cuda.baseline(tiles("load_then_compute"), kind="reasonable")
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
    why="two tiles under way instead of one: enough bytes in flight where a tile is computed faster than it arrives",
)
cuda.variant(
    tiles("bulk_stages", shared_bytes=stages(3)),
    requires="sm_90",
    builds_on="three_stages",
    adds="copy engine",
    why="one instruction of one thread asks for a whole tile, where cp.async takes one for every 16 bytes",
)

cpu.baseline(loops("load_then_compute"), kind="reasonable")
cpu.variant(loops("prefetched"), adds="software prefetch", why="the next tile is asked for before this one is computed")
