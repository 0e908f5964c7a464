"""Mapping: lanes that work side by side must read side by side.

Workload   y = tanh(A x) for a vector x of float32: A is 65536 x 4096 of float32, or with `--size bf16` of bfloat16;
           `--size short` has 128 rows of 2^20. `word_bytes` is 4 or 2. x is scaled so that tanh does not saturate.
Baseline   cuda: a thread has a row, so that the 32 lanes of a load are in 32 rows and open 32 lines.  cpu: column by
           column, as for a matrix that is stored that way; each access is in another line.
Variants   cuda: `warp_per_row`: lanes read neighbours of one row.  `warp_per_row_wide`: 16-byte loads.  `four_rows`: a
           warp has four rows, and loads x once for them.  `block_per_row`: 256 threads on a row.  `split_rows`: a row
           is cut into parts for several blocks, and a second kernel adds them up; where rows are many this costs
           a launch and gains nothing.
           cpu: `row_by_row`: in the order of memory.  `lanes_along_row`: eight sums in a register.  `four_rows`: four
           rows share a load of x, and none of their sums waits for another; where memory is the bound, this gains
           little.
Breaks     Few rows: a warp or a block for each leaves most of the chip idle (`--size short`). Rows shorter than what a
           warp loads at once: lanes idle, and several rows for one warp are better. A matrix that stays in the cache
           forgives any order.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("gemv_mapping.cu", instances=("part_of_row<float>", "part_of_row<Half>"))
host_code = host_source("gemv_mapping.c", options=("-ffp-contract=fast",))

DTYPES = {4: torch.float32, 2: torch.bfloat16}
WORDS = {4: "float", 2: "Half"}  # of the kernels
THREADS, PART = 256, 16384
WARPS = THREADS // 32


@bench.workload(
    smoke={"rows": 61, "columns": 260, "word_bytes": 4},
    cpu={"rows": 4096, "columns": 1024, "word_bytes": 4},
    cuda={"rows": 1 << 16, "columns": 4096, "word_bytes": 4},
    bf16={"rows": 1 << 16, "columns": 4096, "word_bytes": 2},
    short={"rows": 128, "columns": 1 << 20, "word_bytes": 4},
)
def inputs(rows, columns, word_bytes, device, generator):
    return {
        "a": torch.randn(rows, columns, device=device, generator=generator).to(DTYPES[word_bytes]),
        "x": torch.randn(columns, device=device, generator=generator) / math.sqrt(columns),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(a, x):
    return torch.tanh(torch.cat([part.to(x.dtype) @ x for part in a.split(4096)]))


@bench.cost
def cost(rows, columns, word_bytes):
    return Cost(
        bytes_read=word_bytes * rows * columns + 4 * columns,
        bytes_written=4 * rows,
        flops=2 * rows * columns,
    )


shapes = [(1, 1), (5, 32), (257, 100), (9, 1029), (6, 16392), (3, 40001)]
bench.awkward(*({"rows": rows, "columns": columns, "word_bytes": size} for rows, columns in shapes for size in (4, 2)))
cuda.reach(of="RBW", at_least=0.93)
cuda.reach(of="RBW", at_least=0.93, size="bf16")
cuda.reach(of="RBW", at_least=0.9, size="short", implementation="split_rows")


def product(x, rows):
    """Memory for the product."""
    return x.new_empty(rows)


rows_of_warps = launch(
    device_code,
    kernel="{name}<{word}>",
    out=product,
    make={"word": lambda word_bytes: WORDS[word_bytes]},
    grid=blocks(rows=WARPS),
    block=THREADS,
)
loops = loop(host_code, kernel="{name}{word_bytes}", out=product)

cuda.baseline(rows_of_warps("thread_per_row", grid=blocks(rows=THREADS)), kind="naive")
cuda.variant(
    rows_of_warps("warp_per_row", kernel="warp_per_row<{word}, false>"),
    adds="warp a row",
    why="the lanes of a load read 32 neighbours: four sectors that are used whole, in place of 32",
)
cuda.variant(
    rows_of_warps("warp_per_row_wide", kernel="warp_per_row<{word}, true>"),
    builds_on="warp_per_row",
    adds="wide loads",
    why="16 bytes a load: a quarter of the instructions, and four times the bytes under way",
)
cuda.variant(
    rows_of_warps("four_rows", grid=blocks(rows=4 * WARPS)),
    builds_on="warp_per_row_wide",
    adds="register reuse",
    why="x is loaded from L1 once for four rows, and the loads of four rows are under way at the same time",
)
cuda.variant(
    rows_of_warps("block_per_row", grid=blocks(rows=1)),
    adds=("block a row", "wide loads"),
    why="256 threads read a row side by side; they meet once at the end",
)


@cuda.variant(
    builds_on="block_per_row",
    adds="split rows",
    why="parts of a row are blocks of their own, so that few rows fill the chip too",
)
class SplitRows:
    def prepare(self, x, rows, columns, word_bytes):
        self.parts, self.out = -(-columns // PART), product(x, rows)
        self.sums = x.new_empty(rows, self.parts)
        self.part, self.finished = (
            device_code.kernel(f"part_of_row<{WORDS[word_bytes]}>"),
            device_code.kernel("finished"),
        )

    def run(self, a, x, rows, columns):
        self.part(a, x, self.sums, columns, grid=(rows, self.parts), block=THREADS)
        self.finished(self.sums, self.out, rows, self.parts, grid=-(-rows // WARPS), block=THREADS)
        return self.out


cpu.baseline(loops("column_by_column"), kind="naive")
cpu.variant(
    loops("row_by_row"),
    adds="row order",
    why="memory is read in its order: each line once, where a column needs a line for each element",
)
cpu.variant(
    loops("lanes_along_row"),
    builds_on="row_by_row",
    adds="simd",
    why="eight sums in a register: an addition waits for the one before it, but there are eight in each",
)
cpu.variant(
    loops("four_rows"),
    builds_on="lanes_along_row",
    adds="register reuse",
    why="a load of x serves four rows, whose sums do not wait for each other",
)


@bench.yardstick(device=("cpu", "cuda"), name="mv", why="torch.mv, which is cuBLAS or MKL, then tanh")
class Mv:
    def prepare(self, x, rows, word_bytes):
        if word_bytes != 4:
            raise SkipError("torch.mv would round x and the product to bfloat16")
        self.out = product(x, rows)

    def run(self, a, x):
        return torch.mv(a, x, out=self.out).tanh_()
