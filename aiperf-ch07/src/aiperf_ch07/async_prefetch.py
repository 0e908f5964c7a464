"""Asynchronous copies: load the next tile while this one is in use.

Workload   y = p(t) for n float32 in tiles of 4096: t is the mean of an element and of its mirror image in the tile (so
           that a tile has to be there as a whole), p a polynomial of degree 96, of which the coefficients are inputs.
           With `--size light` the degree is 4, and there is nothing to hide the loads behind.
Baseline   cuda: load a tile into shared memory, wait, compute, wait.  cpu: a tile after the other.
Variants   cuda: `register_prefetch`: the next tile waits in registers.  `two_stages`, `four_stages`: cp.async brings it
           to shared memory past them.  `bulk_stages`: one thread asks the copy engine for whole tiles.
           cpu: `prefetched`: asks for the lines of the next tile; here to be right, since the processor's own
           prefetcher sees a stream of lines coming, and no gain is expected.
Breaks     Blocks enough on a multiprocessor do the same for each other without any of this. Where memory alone is the
           bound, as with `light`, there is nothing to overlap with.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cpu": "hardware prefetchers see a stream coming"},
)
device_code = cuda_source("async_prefetch.cu")
host_code = host_source("async_prefetch.c")

TILE, THREADS = 4096, 256
RESIDENT = 2  # blocks a multiprocessor, the same for all, which go from tile to tile


@bench.workload(
    smoke={"n": 12289, "degree": 13},
    cpu={"n": 1 << 22, "degree": 96},
    cuda={"n": 1 << 27, "degree": 96},
    light={"n": 1 << 27, "degree": 4},
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


bench.reach(of="SOL", at_least=0.88)


def mirrored(a):
    """The mean of each element and its mirror image, where all tiles are whole."""
    tiles = a.view(-1, TILE)
    return ((tiles + tiles.flip(1)) / 2).view(-1)


class Kernel:
    """Launches a kernel whose blocks hold so many tiles in shared memory."""

    name = ""
    stages = 1

    def prepare(self, a):
        self.out, self.kernel = torch.empty_like(a), device_code.kernel(self.name)
        shared_bytes = 4 * TILE * self.stages
        at_once = grid_that_fills(self.kernel, THREADS, shared_bytes, per_multiprocessor=RESIDENT)
        self.launch = {"grid": min(-(-a.numel() // TILE), at_once), "block": THREADS, "shared_bytes": shared_bytes}

    def run(self, a, coefficients, degree):
        self.kernel(a, coefficients, self.out, a.numel(), degree, **self.launch)
        return self.out


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, a):
        self.out, self.loop = torch.empty_like(a), host_code.function(self.name)

    def run(self, a, coefficients, degree):
        self.loop(a, coefficients, self.out, a.numel(), degree)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="load_then_compute")
class LoadThenCompute(Kernel):
    name = "load_then_compute"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="register_prefetch",
    why="the next tile's loads are under way in registers while this one is computed",
)
class RegisterPrefetch(Kernel):
    name = "register_prefetch"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="two_stages",
    why="cp.async brings the next tile into shared memory during the computation, and needs no registers for it",
)
class TwoStages(Kernel):
    name, stages = "two_stages", 2


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="four_stages",
    builds_on="two_stages",
    why="three tiles under way instead of one: enough bytes in flight where a tile is computed faster than it arrives",
)
class FourStages(Kernel):
    name, stages = "four_stages", 4


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="bulk_stages",
    why="one instruction of one thread asks for a whole tile, where cp.async takes one for every 16 bytes",
)
class BulkStages(Kernel):
    name, stages = "bulk_stages", 4


@bench.baseline(device="cpu", requires="compiler", kind="reasonable", name="load_then_compute")
class LoadThenComputeLoop(HostLoop):
    name = "load_then_compute"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="prefetched",
    why="the next tile is asked for before this one is computed",
)
class PrefetchedLoop(HostLoop):
    name = "prefetched"
