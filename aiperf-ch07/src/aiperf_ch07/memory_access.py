"""Coalesced access: the lanes of a warp should touch neighbouring addresses.

Workload   b = 2a + 1 over n float32 values; the order of the elements is free.
Baseline   cuda: lane i starts at element 32 i and goes on to the next, so that every load of a warp opens 32 sectors.
           cpu: a walk with a stride of 32 floats, which uses 4 bytes of each 64-byte line that it fetches.
Variants   `permuted`: neighbours far apart, how bad it can get.  `coalesced`: neighbouring lanes take neighbours;
           a thread has as many elements as before.  `wide` (cuda): four neighbours a thread, in one 16-byte access.
           `streamed` (cpu): stores that do not read the line which they overwrite.
Breaks     Arrays that fit in the last-level cache: what a stride wastes of a line or sector is found there again.
           Of the bytes that `strided` wastes on a GPU, the L1 and L2 save the more the fewer warps run at once.
"""

from math import gcd

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("memory_access.cu")
host_code = host_source("memory_access.c")

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


bench.reach(of="BW", at_least=0.92, implementation="coalesced")


class Kernel:
    """Launches a kernel with one thread for so many elements."""

    name = ""
    per_thread = 1

    def prepare(self, a):
        self.out = torch.empty_like(a)
        self.kernel = device_code.kernel(self.name)
        self.blocks = -(-a.numel() // (self.per_thread * THREADS))

    def run(self, a):
        self.kernel(a, self.out, a.numel(), grid=self.blocks, block=THREADS)
        return self.out


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, a):
        self.out = torch.empty_like(a)
        self.loop = host_code.function(self.name)

    def run(self, a):
        self.loop(a, self.out, a.numel())
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="strided")
class Strided(Kernel):
    name, per_thread = "strided", 32


@bench.variant(
    device="cuda", requires="sm_80", name="permuted", why="the far end of the lesson: no two lanes share a sector"
)
class Permuted(Kernel):
    def prepare(self, a):
        self.out = torch.empty_like(a)
        self.kernel = device_code.kernel("permuted")
        self.step = step_for(a.numel())

    def run(self, a):
        self.kernel(a, self.out, a.numel(), self.step, grid=-(-a.numel() // THREADS), block=THREADS)
        return self.out


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="coalesced",
    why="the 32 loads of a warp fall into one 128-byte line, of which every byte is used",
)
class Coalesced(Kernel):
    name, per_thread = "coalesced", 32


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="wide",
    builds_on="coalesced",
    why="16 bytes an instruction: a quarter of the loads, stores and addresses for the same bytes in flight",
)
class Wide(Kernel):
    name, per_thread = "wide", 4


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="strided")
class StridedLoop(HostLoop):
    name = "strided"


@bench.variant(
    device="cpu", requires="compiler", name="permuted", why="the far end of the lesson: neither lines nor prefetch help"
)
class PermutedLoop:
    def prepare(self, a):
        self.out = torch.empty_like(a)
        self.loop = host_code.function("permuted")
        self.step = step_for(a.numel())

    def run(self, a):
        self.loop(a, self.out, a.numel(), self.step)
        return self.out


@bench.variant(
    device="cpu",
    requires="compiler",
    name="coalesced",
    why="each 64-byte line is fetched once, ahead of its use, and every byte of it is used",
)
class CoalescedLoop(HostLoop):
    name = "coalesced"


@bench.variant(
    device="cpu",
    requires=("compiler", "machine:x86_64"),
    name="streamed",
    builds_on="coalesced",
    why="stores that pass the cache by save reading each line before it is overwritten: 8 bytes an element, not 12",
)
class StreamedLoop(HostLoop):
    name = "streamed"


@bench.yardstick(device=("cpu", "cuda"), name="torch", why="torch.add with alpha, one pass over the data")
class Torch:
    def prepare(self, a):
        # A number on the host becomes a constant of the kernel; one on the GPU would be a third array to read.
        self.one, self.out = torch.ones(()), torch.empty_like(a)

    def run(self, a):
        return torch.add(self.one, a, alpha=2, out=self.out)


def step_for(n):
    """The first number from the golden section of n that has no factor in common with it."""
    step = max(1, round(0.6180339887 * n))
    while gcd(step, n) != 1:
        step += 1
    return step
