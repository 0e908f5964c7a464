"""Divergence: a warp takes every path that one of its lanes is on.

Question    What does a long path cost the lanes that are not on it, and what does it take to bring its lanes together?
Numbers     Each of 2^25 float32 takes one of four paths, which the input `path` names: a polynomial of degree 960, or
            one of three of degree 24. A fifth of the elements, at random places, are on the long path (`share`): 211
            multiply-adds an element. A warp has none on it in one of 1,300 cases: it takes 960 + 3 x 24 = 1032.
Prediction  At most 1032 / 211 = 4.9x. A list of the long elements of a block costs a ballot, a place and scattered
            accesses, and short paths still diverge, 72 for 24: some 340 instructions, 3x.
Limits      Paths of similar length: divergence costs at most their number, and compaction costs too. Elements that are
            sorted by path, or a share so small or so large that most warps are on one path anyway. On a CPU nothing
            diverges, but a branch keeps the compiler from vectors.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("warp_divergence.cu")
host_code = host_source("warp_divergence.c", options=("-ffp-contract=fast",))

DEGREES = (960, 24, 24, 24)
APART = 1000  # the coefficients of two paths
THREADS, TILE = 128, 8192


@bench.workload(
    smoke={"n": 4099, "share": 0.2},
    cpu={"n": 1 << 17, "share": 0.2},
    cuda={"n": 1 << 25, "share": 0.2},
)
def inputs(n, share, device, generator):
    if not 0 <= share <= 1 or n >= 1 << 31:
        raise BenchmarkError(f"accepted are a share from 0 to 1 and n below 2^31; got share={share!r}, n={n!r}")
    draw = {"device": device, "generator": generator}
    path = torch.randint(1, len(DEGREES), (n,), dtype=torch.uint8, **draw)
    return {"path": path.masked_fill_(torch.rand(n, **draw) < share, 0), "t": 2 * torch.rand(n, **draw) - 1}


@bench.reference(tolerance=fp32)
def reference(path, t):
    out = torch.empty_like(t)
    for number, degree in enumerate(DEGREES):
        places = path == number
        x = t[places]
        y = torch.full_like(x, term(APART * number + degree))
        for k in range(degree - 1, -1, -1):
            y.mul_(x).add_(term(APART * number + k))
        out[places] = y
    return out


@bench.cost
def cost(n, share):
    # A multiply-add for each coefficient of the path that an element is on; of the long path the expected number.
    degree = share * DEGREES[0] + (1 - share) * DEGREES[1]
    return Cost(bytes_read=5 * n, bytes_written=4 * n, flops=2 * degree * n)


# Nobody on the long path, and everybody; one element, a part of a tile, one more than a tile.
bench.awkward(*({"n": n, "share": share} for n, share in ((1, 1), (31, 0), (8193, 0.5), (16411, 1), (5003, 0.02))))
cuda.reach(
    of="FMA:fp32",
    at_least=0.65,
    cause="a third of the instructions are those of the list and of short paths in vain: with every element on the "
    "long path it is reached",
    shown_by="size:share=1",
)


def term(k):
    """Coefficient k, as in `series.h`: a multiple of 1/32 without a pattern."""
    return ((k * 2654435761 % 2**32 >> 26) - 31) / 32


one_each = launch(device_code, out="t", grid=blocks(n=THREADS), block=THREADS)
loops = loop(host_code, out="t")

cuda.baseline(one_each("branches"), kind="naive")
cuda.variant(
    one_each("select"),
    adds="select",
    why="no lane waits at a branch, because each computes every path",
    teaches="a warp took all paths anyway: without branches it does the same work",
)
cuda.variant(
    one_each("compacted", grid=blocks(n=TILE)),
    adds="compaction",
    why="a ballot gives each long element of a block a place in a list, by which full warps take the long path",
)


@cuda.variant(
    adds="partition",
    why="the long elements of all blocks are one list, for a kernel whose warps are all full",
)
class Partitioned:
    def prepare(self, t, n):
        self.out = torch.empty_like(t)
        self.list = torch.empty(n, dtype=torch.int32, device=t.device)
        self.listed = torch.zeros(1, dtype=torch.int32, device=t.device)
        self.short, self.long = device_code.kernel("short_and_list"), device_code.kernel("of_list")
        self.grid = min(-(-n // THREADS), grid_that_fills(self.long, THREADS))

    def run(self, path, t, n):
        self.listed.zero_()
        self.short(path, t, self.out, self.list, self.listed, n, grid=-(-n // TILE), block=THREADS)
        self.long(t, self.out, self.list, self.listed, grid=self.grid, block=THREADS)
        return self.out


cpu.baseline(loops("branches"), kind="naive")
cpu.variant(
    loops("select"),
    adds=("select", "simd"),
    why="without branches eight elements are computed at once, which costs less than the paths in vain",
)
cpu.variant(
    loops("compacted"),
    adds=("compaction", "simd"),
    why="eight elements that are on the same path are collected first: vectors, and no path in vain",
)
