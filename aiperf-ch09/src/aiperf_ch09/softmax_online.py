"""Softmax of long rows: count how often a row comes from memory.

Workload   y[i, j] = exp(x[i, j]) / the sum of exp(x[i, :]), bfloat16 in and out, float32 in between. One row has a late
           element on which exp alone overflows, so that the maximum of the whole row must be subtracted.
Baseline   Three passes over a row: its maximum, its sum, the result.
Variants   cuda: `online`: maximum and sum in one pass; a sum is scaled down when a larger element comes.
           `resident`: the row waits in shared memory for the second pass.  `split_row`: several blocks share a row,
           each with a maximum and a sum of its own, which a second kernel puts together.
           cpu: `kept`: exponentials of the second pass wait in the cache for the third.
Breaks     Rows that fit in registers; see `ch14.triton_softmax`. `resident` needs a row that fits in shared memory, and
           `--size long` has none. Enough rows for all multiprocessors: then `split_row` is `online` with one kernel
           more; `--size few` shows its gain. On a CPU the second and third pass find the row in the cache, and
           exponentials take longer than any pass: fewer of them gain, fewer passes do not.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")

SPIKE = 96.0  # exp(89) is beyond float32
THREADS = 512
PIECE = 8  # elements of 16 bytes
# Columns of 96 KiB, which every GPU from sm_80 on gives a block.
MOST_SHARED = 48 * 1024
# Blocks that fill any GPU, and the most of them for a row.
MANY_BLOCKS, MOST_PARTS = 4096, 128

device_code = cuda_source("softmax_online.cu")
# With finite values and without exceptions a maximum is one instruction, and loops with one are vectorised.
VECTORS = ("-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast")
host_code = host_source("softmax_online.c", options=VECTORS)


@bench.workload(
    smoke={"rows": 41, "columns": 521},
    cpu={"rows": 128, "columns": 32768},
    cuda={"rows": 8192, "columns": 32768},
    long={"rows": 1024, "columns": 262144},
    few={"rows": 32, "columns": 1 << 22},
)
def inputs(rows, columns, device, generator):
    x = torch.randn(rows, columns, device=device, generator=generator)
    place = torch.randint(columns - columns // 4 - 1, columns, (1,), device=device, generator=generator)
    row = torch.randint(rows, (1,), device=device, generator=generator)
    x[row, place] = SPIKE
    return {"x": x.bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x):
    return torch.softmax(x, -1)


@bench.cost
def cost(rows, columns):
    # Of each element: a comparison, a subtraction, an exponential, an addition, a division.
    return Cost(bytes_read=2 * rows * columns, bytes_written=2 * rows * columns, flops=5 * rows * columns)


# One element; rows of a part of a piece, of whole pieces, longer than a block takes at once.
bench.awkward(
    {"rows": 1, "columns": 1}, {"rows": 9, "columns": 31}, {"rows": 17, "columns": 264}, {"rows": 3, "columns": 8209}
)
cuda.reach(of="BW", at_least=0.90)
# Two reads and a write of the three accesses of 2 bytes, of which two are compulsory.
cuda.reach(of="BW", at_least=0.55, size="few", implementation="split_row")


def row_bytes(columns):
    """Shared memory of a row. Raises `SkipError` for a row that is too long."""
    if columns > MOST_SHARED:
        raise SkipError(f"holds a row of up to {MOST_SHARED} columns in shared memory; this one has {columns}")
    return 2 * PIECE * -(-columns // PIECE)


block_a_row = launch(device_code, out="x", grid=blocks(rows=1), block=THREADS)
cuda.baseline(block_a_row("three_passes"), kind="naive")
cuda.variant(
    block_a_row("online"),
    adds="online maximum",
    why="maximum and sum come from one pass, so a row is read twice, not three times",
)
cuda.variant(
    block_a_row("resident", shared_bytes=row_bytes),
    builds_on="online",
    adds="shared memory",
    why="a row is read once, and waits on the chip for its maximum and its sum",
)


@cuda.variant(
    builds_on="online",
    adds="split rows",
    why="several blocks read parts of a row, so that few rows keep all multiprocessors busy",
)
class SplitRow:
    def prepare(self, x, rows):
        self.parts = max(2, min(MOST_PARTS, MANY_BLOCKS // rows))
        self.out, self.found = torch.empty_like(x), torch.empty(rows, self.parts, 2, device=x.device)
        self.summarise, self.finish = device_code.kernel("summarise_part"), device_code.kernel("finish_part")

    def run(self, x, rows, columns):
        grid = (rows, self.parts)
        self.summarise(x, self.found, columns, grid=grid, block=THREADS)
        self.finish(x, self.found, self.out, columns, grid=grid, block=THREADS)
        return self.out


loops = loop(host_code, out="x")
cpu.baseline(loops("three_passes"), kind="reasonable")
cpu.variant(
    loops("kept"),
    adds="kept exponentials",
    why="one exponential an element, not two: those of the sum are kept as float32 in the cache, and only scaled",
)


@bench.yardstick(device=("cpu", "cuda"), why="the library's softmax, which chooses a kernel by the length of a row")
class Library:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.softmax(x, -1, out=self.out)
