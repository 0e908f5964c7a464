"""Reuse through shared memory: fetch an element once, and use it 32 times.

Workload   C = A B for n x n float32.
Baseline   cuda: a thread an element, coalesced, so the L1 already helps.  cpu: an element after the other, each from a
           row and a column.
Variants   cuda: `tiled`: tiles of 32 x 32 in shared memory.  `wide_fill`: filled in 16-byte accesses.
           `two_outputs`: two elements a thread, which share what is read of B.  cpu: `by_rows`: along rows only.
           `blocked`: by blocks of B that stay in the cache.
Breaks     Here: with one or two elements a thread the reads of shared memory are the bound, far below what the chip can
           multiply. Keeping more in registers is the next lesson, and not this one's.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("smem_matmul.cu")
host_code = host_source("smem_matmul.c")

TILE = 32


@bench.workload(smoke={"n": 67}, cpu={"n": 768}, cuda={"n": 4096})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in ("a", "b")}


@bench.reference(tolerance=fp32_reduction)
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3, precision="fp32")


class Kernel:
    """Launches a kernel whose blocks have 32 threads along a row and so many rows, for so many rows of C."""

    name = ""
    threads, rows = TILE, TILE

    def prepare(self, a):
        self.out, self.kernel = torch.empty_like(a), device_code.kernel(self.name)
        n = a.shape[0]
        self.grid = (-(-n // TILE), -(-n // self.rows))

    def run(self, a, b):
        self.kernel(a, b, self.out, a.shape[0], grid=self.grid, block=(TILE, self.threads))
        return self.out


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, a):
        self.out, self.loop = torch.empty_like(a), host_code.function(self.name)

    def run(self, a, b):
        self.loop(a, b, self.out, a.shape[0])
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="one_output")
class OneOutput(Kernel):
    name, threads, rows = "one_output", 8, 8


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="tiled",
    why="an element that lies in shared memory is read there 32 times for one fetch from global memory",
)
class Tiled(Kernel):
    name = "tiled"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="wide_fill",
    builds_on="tiled",
    why="16-byte accesses fill the tiles: a quarter of the loads, of the stores to shared memory, and of their "
    "addresses",
)
class WideFill(Kernel):
    name = "wide_fill"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="two_outputs",
    builds_on="wide_fill",
    why="what is read of B serves two elements: six reads of shared memory for eight multiply-adds, not ten",
)
class TwoOutputs(Kernel):
    name, threads = "two_outputs", TILE // 2


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="one_output")
class OneOutputLoop(HostLoop):
    name = "one_output"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="by_rows",
    why="rows of B and C are lines used whole, and neighbours are multiplied by one SIMD instruction",
)
class ByRows(HostLoop):
    name = "by_rows"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="blocked",
    builds_on="by_rows",
    why="a block of B is fetched once for 64 rows of A, and read from the second-level cache in between",
)
class Blocked(HostLoop):
    name = "blocked"


@bench.yardstick(device=("cpu", "cuda"), name="mm", why="the library's product in full float32: oneDNN or MKL, cuBLAS")
class Mm:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)
