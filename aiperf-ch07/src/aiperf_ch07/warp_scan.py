"""Prefix sums: one pass over the data is enough.

Workload   out[i] = a[0] + ... + a[i] for int32, which wraps around.
Baseline   cuda: three steps. Blocks scan tiles of 1024, the tiles' sums are scanned, and are added to the tiles: the
           data is read twice and written twice.  cpu: one core, an element after the other.
Variants   cuda: `shuffle`: within a tile lanes read each other's registers, without barriers.  `look_back`: one pass,
           in which a block asks those before it for their sums while they are at work.  cpu: `two_passes`: each core
           adds up its piece and scans it once the cores have met.  `two_passes_cached`: by pieces that stay in the
           cache.
Breaks     Arrays that fit in the last-level cache: the second pass of the three steps costs little there. The look-back
           needs blocks that begin in the order of their tiles; it takes its numbers from a counter for that.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("warp_scan.cu")
host_code = host_source("warp_scan.c")

THREADS = 256
TILE, LOOK_BACK_TILE = 4 * THREADS, 16 * THREADS


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {"a": torch.randint(-(1 << 31), 1 << 31, (n,), device=device, generator=generator, dtype=torch.int32)}


@bench.reference(tolerance=exact)
def reference(a):
    return torch.cumsum(a, 0, dtype=torch.int64).to(torch.int32)


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n - 1)


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
        for level, (source, out, sums) in enumerate(zip([a, *self.sums], self.scans, self.sums, strict=False)):
            self.scan_tiles(source, out, sums, source.numel(), grid=self.sums[level].numel(), block=THREADS)
        for out, before in zip(reversed(self.scans[:-1]), reversed(self.scans[1:]), strict=True):
            self.add_before(out, before, out.numel(), grid=before.numel(), block=THREADS)
        return self.scans[0]


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, a):
        self.out, self.loop = torch.empty_like(a), host_code.function(self.name)

    def run(self, a):
        self.loop(a, self.out, a.numel())
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="three_steps")
class Barriers(ThreeSteps):
    name = "tiles_by_barriers"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="shuffle",
    why="lanes add up each other's registers: five steps without memory, and one barrier a tile, not seventeen",
)
class Shuffle(ThreeSteps):
    name = "tiles_by_shuffles"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="look_back",
    builds_on="shuffle",
    why="a tile's prefix is put together from what its predecessors publish, so the data is read and written once",
)
class LookBack:
    def prepare(self, a):
        self.out, self.kernel = torch.empty_like(a), device_code.kernel("look_back")
        self.tiles = -(-a.numel() // LOOK_BACK_TILE)
        self.states = torch.empty(1 + self.tiles, dtype=torch.int64, device=a.device)

    def run(self, a):
        self.states.zero_()
        self.kernel(a, self.out, self.states, a.numel(), grid=self.tiles, block=THREADS)
        return self.out


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="in_order")
class InOrder(HostLoop):
    name = "in_order"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="two_passes",
    why="cores that know each other's sums scan at the same time, sixteen elements an instruction",
)
class TwoPasses(HostLoop):
    name = "two_passes"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="two_passes_cached",
    builds_on="two_passes",
    why="pieces that fit in a core's cache are read from memory once, and a second time from there",
)
class TwoPassesCached(HostLoop):
    name = "two_passes_cached"


@bench.yardstick(device=("cpu", "cuda"), name="cumsum", why="torch.cumsum in int32")
class Cumsum:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a):
        return torch.cumsum(a, 0, dtype=torch.int32, out=self.out)
