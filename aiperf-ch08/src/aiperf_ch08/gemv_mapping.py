"""Mapping: lanes that work side by side must read side by side.

Question    What does it cost if neighbouring lanes read different rows, and not neighbours of one row?
Numbers     y = tanh(A x), A of 65536 x 4096 float32, 1.07 GB, read once; half with `--size bf16`. A load of a warp
            with a row for each lane opens 32 sectors of 32 bytes and uses 4 of each, and 2048 threads of an SM hold
            2048 lines of 128 bytes, 256 KB: all that L1 has. Loads of A and x are 2 an element, 1/2 with 16 bytes a
            load, 5/16 if four rows share those of x. On a CPU, rows of 4096 bytes begin in one set of L1.
Prediction  A warp a row gains between 1x, where L1 keeps each sector for its eight words, and 8x, where it keeps none.
            The steps after it fetch the same sectors: they gain what issue and latency cost. On a CPU a column fetches
            a line of 64 bytes for 4: at most 16x from row order; a sum waits 3 or 4 cycles for each addition, so at
            most 8x from eight sums; then memory is the bound.
Limits      Few rows: a warp or a block for each leaves most of the chip idle, so that only split rows fill it (`--size
            short`, 128 rows of 2^20). Rows shorter than what a warp loads at once: lanes idle, and several rows for one
            warp are better. A matrix that stays in the cache forgives any order.
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
# Steps differ by the width of loads alone, not by their hint; a thread with a row wants its line back.
bench.sass("thread_per_row<float>", lacks="LDG.EF")
bench.sass("warp_per_row<float, false>", has="LDG.EF.32", lacks="LDG.128")
bench.sass("warp_per_row<float, true>", has="LDG.EF.128")
bench.sass("four_rows<float>", has="LDG.EF.128")


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
    predict="at most 8x: a lane of the baseline uses 4 bytes of a sector of 32, and others if L1 still has it",
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
    teaches="one row has enough loads under way, and x comes from L1 beside them: memory is the bound by now",
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
    teaches="many rows fill the chip by themselves: rows of one part gain a second launch, and nothing else",
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
    predict="at least 2x: a column takes 64 bytes for 4, and its lines share so few sets that none stays",
)
cpu.variant(
    loops("lanes_along_row"),
    builds_on="row_by_row",
    adds="simd",
    why="eight sums in a register: an addition waits for the one before it, but there are eight in each",
    predict="at most 8x: an eighth of the additions that wait for each other",
)
cpu.variant(
    loops("four_rows"),
    builds_on="lanes_along_row",
    adds="register reuse",
    why="a load of x serves four rows, whose sums do not wait for each other",
    teaches="eight sums in a register read A as fast as memory gives it: loads of x from L1 were not waited for",
)


@bench.yardstick(device=("cpu", "cuda"), name="mv", why="torch.mv, which is cuBLAS or MKL, then tanh")
class Mv:
    def prepare(self, x, rows, word_bytes):
        if word_bytes != 4:
            raise SkipError("torch.mv would round x and the product to bfloat16")
        self.out = product(x, rows)

    def run(self, a, x):
        return torch.mv(a, x, out=self.out).tanh_()
