"""Softmax of long rows: count how often a row comes from memory.

Question    What does a softmax of rows of 64 KiB gain when a row is read twice, or once, instead of three times?
Numbers     y[i, j] = exp(x[i, j]) / the sum of exp(x[i, :]), bfloat16, 8192 x 32768. 2112 blocks of 128 threads run at
            once; their rows are 138 MB, so a pass reads memory, not L2. One read and one write are 1.07 GB.
Prediction  Units of 0.54 GB: three passes move 4, `online` 3, `resident` 2. So 1.33x, then 1.5x, at most. Three
            resident rows an SM are 192 KiB under way. The exponentials of two passes take half of the time, beside the
            memory: 2 x 2^28 at 16 a cycle and SM.
Limits      Rows that fit in L2 with those of all blocks: passes cost less than traffic. A resident row has at most 96
            KiB; `--size long` has more. Fewer rows than SMs need `split_row`: `--size few`. On a CPU the second and
            third pass find the row in the cache, and exponentials take longer than any pass.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")

SPIKE = 96.0  # exp(89) is beyond float32; one row has it late, so that the maximum of all of it must be subtracted
THREADS = 128
PIECE = 8  # elements of 16 bytes
ROW_THREADS = 512  # of a row in shared memory
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
# Two of two units of traffic, less the start and the end of each block.
cuda.reach(of="BW", at_least=0.92)
# Two reads and a write of the three accesses of 2 bytes, of which two are compulsory.
cuda.reach(of="BW", at_least=0.55, size="few", implementation="split_row")


bench.sass("resident", has=("LDGSTS.128", "LDS.128", "STG.128", "MUFU.EX2"))
bench.sass("online", has=("LDG.128", "STG.128"), lacks="LDS.128")


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
    why="maximum and sum come from one pass: a thread scales its sum down when it meets a larger element",
    predict="1.15 to 1.34x: three units of traffic, not four",
)
cuda.variant(
    block_a_row("resident", block=ROW_THREADS, shared_bytes=row_bytes),
    builds_on="online",
    adds="shared memory",
    why="a row is copied to shared memory past the registers, all of it under way at once, and is read there twice",
    predict="1.2 to 1.55x: two units of traffic, not three",
)


@cuda.variant(
    builds_on="online",
    adds="split rows",
    why="several blocks read parts of a row, so that few rows keep all multiprocessors busy",
)
class SplitRow:
    def prepare(self, x, rows):
        multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
        if rows >= multiprocessors:
            raise SkipError(f"splits fewer rows than the {multiprocessors} multiprocessors; these are {rows}")
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
