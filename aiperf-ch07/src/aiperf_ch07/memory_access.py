"""Coalesced access: the lanes of a warp should touch neighbouring addresses.

Question    What does a GPU pay when each lane of a warp walks through memory of its own?
Numbers     out = 2 a + 1 over 2^28 float32 values in any order: 2.1 GB, 0.51 ms at the rate of a copy. Lane i of the
            baseline starts at element 32 i: a load of a warp opens 32 sectors of 32 bytes for 4 bytes of each.
Prediction  Coalesced, a load opens 4 sectors: up to 8x where no cache finds a sector again, and the rate of a copy. A
            random order finds nothing again: slower than the walk.
Limits      Arrays that fit in the last-level cache, which finds again what a stride wastes. Of the bytes that `strided`
            wastes, L1 and L2 save more when fewer warps run at once.
"""

from math import gcd

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("memory_access.cu"), host_source("memory_access.c")

THREADS = 256


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25}, cuda={"n": 1 << 28})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return 2 * a + 1


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * n)


def step_for(n):
    """The first number from the golden section of n that has no factor in common with it."""
    step = max(1, round(0.6180339887 * n))
    while gcd(step, n) != 1:
        step += 1
    return step


# One element, primes, and sizes that leave the last warp, block or 16-byte access partly full.
bench.awkward(n=(1, 2, 3, 31, 32, 33, 4099, 8192, 65537, 1000003))
cuda.reach(of="BW", at_least=0.92, implementation="coalesced")

kernel = launch(device_code, out="a", grid=blocks(n=32 * THREADS), block=THREADS)
loops = loop(host_code, out="a")

cuda.baseline(kernel("strided"), kind="naive")
cuda.variant(
    kernel("permuted", make={"step": step_for}, grid=blocks(n=THREADS)),
    adds="random order",
    why="no two accesses share a sector, and none finds one in a cache: the bound of waste",
    teaches="a stride is not the worst order: its next 7 elements lie in the sector that is fetched",
)
cuda.variant(
    kernel("coalesced"),
    adds="coalescing",
    why="the 32 loads of a warp fall into one 128-byte line, of which every byte is used",
)
cuda.variant(
    kernel("wide"),
    builds_on="coalesced",
    adds="wide accesses",
    why="16 bytes an instruction: a quarter of the loads, stores and addresses for the same bytes in flight",
    teaches="instructions are not the bound: 32 elements a thread have enough bytes in flight at either width",
)
cuda.variant(
    kernel("more_threads", grid=blocks(n=4 * THREADS)),
    builds_on="wide",
    adds="more threads",
    why="a thread with one access never waits between two, and a finished block makes room for new loads",
)

cpu.baseline(loops("strided"), kind="naive")
cpu.variant(
    loops("permuted", make={"step": step_for}),
    adds="random order",
    why="neither lines nor the hardware prefetcher help: the bound of waste",
    teaches="the prefetcher of a processor follows a stride, and no random order",
)
cpu.variant(
    loops("coalesced"),
    adds="coalescing",
    why="each 64-byte line is fetched once, ahead of its use, and every byte of it is used",
)
cpu.variant(
    loops("streamed"),
    requires="machine:x86_64",
    builds_on="coalesced",
    adds="non-temporal stores",
    why="stores that bypass the cache do not read a line before they overwrite it: 8 bytes an element, not 12",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.add with alpha, one pass over the data")
class Torch:
    def prepare(self, a):
        # A number on the host becomes a constant of the kernel; one on the GPU would be a third array to read.
        self.one, self.out = torch.ones(()), torch.empty_like(a)

    def run(self, a):
        return torch.add(self.one, a, alpha=2, out=self.out)
