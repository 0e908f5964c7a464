"""Histogram: private copies before atomics.

Workload   counts[key] += 1 over 2^28 keys: bytes for up to 256 bins, else 16 bits. `skew` is the part of the keys that
           are one and the same (which one is drawn too); all others are equally likely.
Baseline   All threads add to one set of counters in memory, atomically.
Variants   cuda: `by_block`: counters in shared memory, added up once a block.  `by_warp`: a set for each warp, as far
           as 48 KiB go.  `by_matches`: lanes with one key send one addition.  `by_pieces`: 16 bytes of keys a load.
           `by_runs`: and equal keys in a row are added up in a register.  cpu: `by_core`: a set for each core.
           `four_copies`: four, so that an addition need not wait for the one before.
Breaks     More bins than shared memory holds. Uniform byte keys are bound by atomics in shared memory long before
           memory is, so that wider loads save instructions and little time. Adding the constant 1 the chip already does
           once for all equal lanes (ATOMS.POPC.INC), so that `by_matches` pays for what it would get anyway: it is for
           other sums.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("histogram.cu")
host_code = host_source("histogram.c")

THREADS, WARPS = 256, 8
SHARED_BYTES = 48 << 10  # what a kernel has without asking
MOST_BINS = SHARED_BYTES // 4


@bench.workload(
    smoke={"n": 4099, "bins": 199, "skew": 0},
    cpu={"n": 1 << 25, "bins": 256, "skew": 0},
    cuda={"n": 1 << 28, "bins": 256, "skew": 0},
    skewed={"n": 1 << 28, "bins": 256, "skew": 0.9},
    many_bins={"n": 1 << 28, "bins": 4096, "skew": 0},
)
def inputs(n, bins, skew, device, generator):
    if not 2 <= bins <= MOST_BINS:
        raise BenchmarkError(f"histogram was asked for {bins} bins; accepted are 2 to {MOST_BINS}")
    kind = torch.uint8 if bins <= 256 else torch.int16
    keys = torch.randint(bins, (n,), device=device, generator=generator, dtype=kind)
    if skew:
        favourite = torch.randint(bins, (1,), device=device, generator=generator, dtype=kind)
        keys = torch.where(torch.rand(n, device=device, generator=generator) < skew, favourite, keys)
    return {"keys": keys}


@bench.reference(tolerance=exact)
def reference(keys, bins):
    return torch.bincount(keys, minlength=bins).to(torch.int32)


@bench.cost
def cost(n, bins):
    return Cost(bytes_read=n * key_bytes(bins), bytes_written=4 * bins)


bench.reach(of="RBW", at_least=0.8)


def key_bytes(bins):
    """Bytes of a key."""
    return 1 if bins <= 256 else 2


class Kernel:
    """Launches the kernel for keys of this width, with so many sets of counters a block."""

    name = ""

    def prepare(self, keys, bins):
        self.counts = torch.empty(bins, dtype=torch.int32, device=keys.device)
        self.kernel = device_code.kernel(f"{self.name}{keys.element_size()}")
        self.copies = self.sets(bins)
        # Blocks go on until all keys are counted.
        shared_bytes = 4 * self.copies * bins
        blocks = min(-(-keys.numel() // THREADS), grid_that_fills(self.kernel, THREADS, shared_bytes))
        self.launch = {"grid": blocks, "block": THREADS, "shared_bytes": shared_bytes}

    def sets(self, bins):
        return min(WARPS, MOST_BINS // bins)

    def run(self, keys, bins):
        self.counts.zero_()
        self.kernel(keys, self.counts, keys.numel(), bins, self.copies, **self.launch)
        return self.counts


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, keys, bins):
        self.counts = torch.empty(bins, dtype=torch.int32)
        self.loop = host_code.function(self.name)

    def run(self, keys, bins):
        self.loop(keys, self.counts.zero_(), keys.numel(), bins, keys.element_size())
        return self.counts


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="shared_by_all")
class SharedByAll(Kernel):
    name = "shared_by_all"

    def sets(self, bins):
        return 0


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_block",
    why="atomics in shared memory stay within the multiprocessor; what goes to L2 is one addition a counter and block",
)
class ByBlock(Kernel):
    name = "by_copies"

    def sets(self, bins):
        return 1


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_warp",
    builds_on="by_block",
    why="warps with counters of their own never wait for each other, only lanes of one warp do",
)
class ByWarp(Kernel):
    name = "by_copies"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_matches",
    builds_on="by_warp",
    why="lanes of a warp that hold the same key send one addition, where they would wait for each other",
)
class ByMatches(Kernel):
    name = "by_matches"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_pieces",
    builds_on="by_warp",
    why="one load brings 16 bytes of keys, not one key",
)
class ByPieces(Kernel):
    name = "by_pieces"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_runs",
    builds_on="by_pieces",
    why="equal keys in a row are added up in a register, and reach shared memory as one addition",
)
class ByRuns(Kernel):
    name = "by_runs"


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="shared_by_all")
class SharedByAllLoop(HostLoop):
    name = "shared_by_all"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="by_core",
    why="counters of its own stay in a core's cache, and need no lock",
)
class ByCore(HostLoop):
    name = "by_core"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="four_copies",
    builds_on="by_core",
    why="neighbouring keys go to different counters even where they are equal, so that no addition waits for another",
)
class FourCopies(HostLoop):
    name = "four_copies"


@bench.yardstick(device=("cpu", "cuda"), name="bincount", why="torch.bincount, which returns int64")
def bincount(keys, bins):
    return torch.bincount(keys, minlength=bins).to(torch.int32)
