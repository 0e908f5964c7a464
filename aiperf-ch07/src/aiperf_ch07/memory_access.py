"""Coalesced access: the lanes of a warp should touch neighbouring addresses.

Workload   out = 2a + 1 over n float32 values; the order of the elements is free.
Baseline   cuda: lane i starts at element 32 i and continues with the next, so that each load of a warp opens 32
           sectors.  cpu: a walk with a stride of 32 floats, which uses 4 bytes of each 64-byte line that it fetches.
Variants   cuda: `permuted`: a random order, the upper bound of badness.  `coalesced`: neighbouring lanes take
           neighbouring elements; a thread has 32 elements, as in the baseline.  `wide`: the same 32 elements a
           thread in 16-byte accesses.  `more_threads`: one such access a thread, and eight times the threads.
           cpu: `permuted` and `coalesced` likewise.  `streamed`: stores that do not read the line they overwrite.
Observe    `aiperf ch07 access-report ch07.memory_access`: 32 sectors a request in the baseline, 4 in `coalesced`, and
           16 in `wide`, whose requests are four times as large.
Breaks     Arrays that fit in the last-level cache: what a stride wastes of a line or sector is found there again.
           Of the bytes that `strided` wastes on a GPU, L1 and L2 save more when fewer warps run at once.
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
    why="what it teaches: this loses, because no two accesses share a sector, and none finds one in a cache",
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
    why="what it teaches: this loses, because neither lines nor the hardware prefetcher help",
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
