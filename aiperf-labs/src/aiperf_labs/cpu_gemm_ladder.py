"""A matrix product on a processor: from three loops to the speed of a library, one mechanism at a time.

Question    What lies between three loops and a library's product: the order of loops, registers, caches or threads?
Numbers     C = A B for 768 x 768 float32: 2 * 768^3 = 0.9 GFLOP, 7 MB in and out. A processor with AVX2 starts two
            vectors of 8 multiply-adds a cycle. In the three loops each addition waits about 4 cycles for the one
            before, and 4 bytes are used of a line of 64.
Prediction  Loop order: a vector needs two loads and a store, so one starts a cycle, 32x. Register tile: eight loads
            serve 12 vectors, so two start a cycle, at most 2x from there. Blocks: A comes 2 times from beyond the
            second-level cache and B 8 times, not A 48 times. Packing: at most what is left to the peak. Threads: a
            factor of their number. Without the register tile, no step reaches half of the peak.
Limits      Rows of 3072 bytes fall into 4 of 64 sets of a first-level cache, which then holds no column of tiles: this
            is what packing mends. `--set n=784` fills all sets, and packing is added time there; `--set n=1024` fills
            one. Below some 200, A and B lie in the caches unblocked. The tile is that of 16 vectors of 32 bytes.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import host_source
from aiperf_core.launches import loop

bench = Benchmark(goal="speed", clock="device")
cpu = bench.on("cpu", requires="compiler")
# C11 keeps a multiplication and an addition apart, unless it is told that one instruction may do both.
host_code = host_source("cpu_gemm_ladder.c", options=("-ffp-contract=fast",))

BLOCK = 256 * 512  # elements of B that are packed at a time; as in the C file


@bench.workload(smoke={"n": 67}, cpu={"n": 768})
def inputs(n, device, generator):
    return {name: torch.randn(n, n, device=device, generator=generator) for name in ("a", "b")}


@bench.reference(tolerance=fp32_reduction)
def reference(a, b):
    return a @ b


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n * n, bytes_written=4 * n * n, flops=2 * n**3, precision="fp32")


# One element; less than a register tile; whole tiles; more than a block of A, of the depth, of the columns.
bench.awkward(n=(1, 5, 96, 259, 521))
bench.reach(of="time:library", at_most=1.4, device="cpu", implementation="threads")

loops = loop(host_code, out="a")
packing = loop(host_code, out="a", make={"panels": lambda: torch.empty(BLOCK)})

cpu.baseline(loops("row_times_column"), kind="naive")
cpu.variant(
    loops("by_rows"),
    adds="loop order",
    why="rows of B and C are lines used whole, and neighbours are multiplied by one vector instruction",
)
cpu.variant(
    loops("register_tile"),
    builds_on="by_rows",
    adds="register tile",
    why="12 vectors of C stay in registers while they are summed: two loads of B and six of A for twelve "
    "multiply-adds, where each needed two loads and a store",
)
cpu.variant(
    loops("blocked"),
    builds_on="register_tile",
    adds="cache blocking",
    why="96 rows of A and 512 columns of B stay in the second-level cache, where each 16 columns of C took all of A "
    "from beyond it",
)
cpu.variant(
    packing("packed"),
    builds_on="blocked",
    adds="packing",
    why="16 columns of B are 16 KiB in a row, which the first-level cache holds; rows of B that share a set push each "
    "other out",
    teaches="a line from the second-level cache arrives while the tile multiplies the one before: packing gains where "
    "that cache is too slow or too small, and is a copy of A and B besides",
)
cpu.variant(
    packing("threads"),
    builds_on="packed",
    adds="threads",
    why="each processor takes blocks of rows; they share the packed block of B",
)
cpu.variant(
    loops("without_packing"),
    builds_on="blocked",
    adds="threads",
    why="the whole ladder without packing: how much of it is the order of the data",
)
cpu.variant(
    loops("without_register_tile"),
    adds=("loop order", "cache blocking", "threads"),
    why="the whole ladder without the register tile: threads and blocks do not make up for loads and stores of C",
)


@bench.yardstick(device="cpu", why="the library's product in full float32, on all processors: MKL or OpenBLAS")
class Library:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)
