"""Prefix sums: one pass over the data is enough.

Workload   out[i] = a[0] + ... + a[i] for int32, which wraps around.
Baseline   cuda: three steps. Blocks scan tiles of 4096, the tiles' sums are scanned, and are added to the tiles: the
           data is read twice and written twice.  cpu: one core, an element after the other.
Variants   cuda: `shuffle`: within a tile lanes read registers of each other, without barriers.  `look_back`: one pass,
           in which a block asks the 32 blocks before it for their sums, then the next 32, until one knows its whole
           prefix.  `wide_look_back`: it asks 256 at once. What it teaches: on an H200 this gains nothing over
           `look_back`, so that the length of the look-back is not the bound.
           cpu: `two_passes`: each core adds up its part, and scans it from the sum of the parts before.
Breaks     Arrays that fit in the last-level cache: the second pass of the three steps costs little there. The look-back
           needs blocks that begin in the order of their tiles; a counter numbers them for that.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("warp_scan.cu"), host_source("warp_scan.c")

THREADS = 256
TILE = 16 * THREADS


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {"a": torch.randint(-(1 << 31), 1 << 31, (n,), device=device, generator=generator, dtype=torch.int32)}


@bench.reference(tolerance=exact)
def reference(a):
    return torch.cumsum(a, 0, dtype=torch.int64).to(torch.int32)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n - 1)


bench.awkward(n=(1, 2, 31, 1024, 1025, 4096, 65537, 1048577, 3000017))
cuda.reach(
    of="BW",
    at_least=0.85,
    cause="while the first warp of a block looks back, its others wait at a barrier, and too few loads are under way",
    shown_by="counter:smsp__average_warps_issue_stalled_barrier,dram__throughput",
)


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
    """A counter of tiles, and a word for each tile."""
    return torch.empty(1 + -(-a.numel() // TILE), dtype=torch.int64, device=a.device)


single_pass = launch(device_code, out="a", make={"states": states}, zero=("states",), grid=blocks(n=TILE))
loops = loop(host_code, out="a")


@cuda.baseline(kind="naive", name="three_steps")
class Barriers(ThreeSteps):
    name = "tiles_by_barriers"


@cuda.variant(
    adds="warp shuffles",
    why="lanes add registers of each other: five steps without memory, and one barrier a tile in place of 72",
)
class Shuffle(ThreeSteps):
    name = "tiles_by_shuffles"


cuda.variant(
    single_pass("look_back"),
    builds_on="shuffle",
    adds="decoupled look-back",
    why="a tile's prefix is put together from what the tiles before publish, so the data is read and written once",
)
cuda.variant(
    single_pass("wide_look_back"),
    builds_on="look_back",
    adds="block-wide window",
    why="a step back costs a trip to L2: with 256 tiles a step most blocks need one or two, with 32 up to eight times "
    "as many",
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
