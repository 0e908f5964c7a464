"""Prefix sums: one pass over the data is enough, if blocks do not ask too early.

Question    What does a prefix sum cost when each element moves twice, not four times, and tiles wait for each other?
Numbers     out[i] = a[0] + ... + a[i], int32, which wraps around; 2^28 elements in 32768 tiles of 8192. One read and
            one write are 2.1 GB, 0.5 ms at the rate of a copy. Three steps read and write all of it twice.
Prediction  One pass halves the traffic: 2x at most. Hundreds of tiles are under way at once, and a block that asks at
            once walks back over them 32 at a time, with a trip to L2 for each window. A block that sleeps first, about
            as long as the walk, finds a whole prefix in its first window.
Limits      Arrays that fit in the last-level cache: the second pass of three steps costs little there. Blocks must
            begin in the order of their tiles; a counter numbers them for that. The delay suits the latency of one GPU's
            L2: a longer one leaves blocks idle.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("warp_scan.cu"), host_source("warp_scan.c")

THREADS = 256
TILE = 32 * THREADS


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {"a": torch.randint(-(1 << 31), 1 << 31, (n,), device=device, generator=generator, dtype=torch.int32)}


@bench.reference(tolerance=exact)
def reference(a):
    return torch.cumsum(a, 0, dtype=torch.int64).to(torch.int32)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n - 1)


bench.awkward(n=(1, 2, 31, 1024, 1025, 8192, 8193, 65537, 1048577, 3000017))
# Two of two units of traffic, less the waits of the first tiles and what a block waits while its loads are done.
cuda.reach(of="BW", at_least=0.80)
bench.sass("single_pass", has=("LDG.128", "SHFL.UP", "REDUX"))
bench.sass("tiles_by_shuffles", has=("LDG.128", "SHFL.UP"))


class ThreeSteps:
    """Scans tiles by a kernel, then the tiles' sums in the same way, and adds those to the tiles."""

    name = ""

    def prepare(self, a):
        self.scan_tiles, self.add_before = device_code.kernel(self.name), device_code.kernel("add_before")
        self.scans = [torch.empty_like(a)]
        # The sums of the tiles, the sums of the tiles of those, and so on until one tile holds them all.
        self.sums = [a.new_empty(-(-a.numel() // TILE))]
        while self.sums[-1].numel() > 1:
            self.scans.append(torch.empty_like(self.sums[-1]))
            self.sums.append(a.new_empty(-(-self.sums[-1].numel() // TILE)))

    def run(self, a):
        for source, out, sums in zip([a, *self.sums[:-1]], self.scans, self.sums, strict=True):
            self.scan_tiles(source, out, sums, source.numel(), grid=sums.numel(), block=THREADS)
        for out, before in zip(reversed(self.scans[:-1]), reversed(self.scans[1:]), strict=True):
            self.add_before(out, before, out.numel(), grid=before.numel(), block=THREADS)
        return self.scans[0]


def states(a):
    """A word for each tile, and a counter of tiles."""
    return torch.empty(-(-a.numel() // TILE) + 1, dtype=torch.int64, device=a.device)


single_pass = launch(
    device_code, out="a", make={"states": states}, zero=("states",), grid=blocks(n=TILE), block=THREADS
)
loops = loop(host_code, out="a")


@cuda.baseline(kind="naive", name="three_steps")
class Barriers(ThreeSteps):
    name = "tiles_by_barriers"


@cuda.variant(
    adds="warp shuffles",
    why="lanes add registers of each other: five steps without memory, and one barrier a tile in place of 144",
)
class Shuffle(ThreeSteps):
    name = "tiles_by_shuffles"


cuda.variant(
    single_pass("look_back", kernel="single_pass<false>"),
    builds_on="shuffle",
    adds="decoupled look-back",
    why="a tile's prefix is put together from what the tiles before publish, so the data is read and written once",
    predict="1.2 to 2x: half of the traffic, and waits",
)
cuda.variant(
    single_pass("delayed", kernel="single_pass<true>"),
    builds_on="look_back",
    adds="delay",
    why="a block that waits sleeps before it asks, and finds prefixes where it would have found sums",
)
cpu.baseline(loops("in_order"), kind="naive")
cpu.variant(
    loops("two_passes"),
    adds=("cores", "simd"),
    why="cores that know the sums of the others scan at the same time, eight elements an instruction",
)


@bench.yardstick(device=("cpu", "cuda"), name="cumsum", why="torch.cumsum in int32")
class Cumsum:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a):
        return torch.cumsum(a, 0, dtype=torch.int32, out=self.out)
