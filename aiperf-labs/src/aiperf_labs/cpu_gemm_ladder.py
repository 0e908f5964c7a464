"""A matrix product on a processor: from three loops to the speed of a library, one mechanism at a time.

Workload   C = A B for n x n float32.
Baseline   Each element is the product of a row and a column. A column has one word in each line that it touches.
Variants   `by_rows`: rows of B are added to rows of C, so that lines are used whole, in vectors.  `register_tile`:
           6 x 16 elements of C stay in registers while they are summed.  `blocked`: by blocks of A and B that stay in
           the caches.  `packed`: the pieces of A and B that are multiplied next lie next to each other.  `threads`:
           all processors share the rows.
           Without one mechanism: `without_packing` and `without_register_tile` are the whole ladder but for that step;
           without the tile there is nothing to pack for.
Breaks     Blocks and packing are about where data comes from: at this size most of it is near, and they gain little.
           `--set n=1024`, where rows are a power of two apart, shows them, and a baseline that takes seconds. The
           register tile is that of a processor with 16 vectors of 32 bytes.
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
    why="what a tile reads of B stays in the first-level cache for 96 rows of A, and these in the second-level cache",
)
cpu.variant(
    packing("packed"),
    builds_on="blocked",
    adds="packing",
    why="a tile reads A and B in a row: no line is fetched for a part of it, and no two rows share a set of the cache",
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
