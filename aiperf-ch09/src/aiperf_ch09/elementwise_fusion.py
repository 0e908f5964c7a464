"""Elementwise operations in one kernel: each separate operation is a trip to memory.

Question    What does a chain of five elementwise operations cost when each is a kernel of its own?
Numbers     out = clamp(gelu(x + bias) * scale + residual), bfloat16, 2^14 x 2^14; bias and scale a column.
            Eager moves 4 + 4 + 4 + 6 + 4 = 22 bytes an element in five launches; the work needs 6: 1.6 GB, 0.38 ms at
            the rate of a copy.
Prediction  22 / 6 = 3.7x from fusion, more where eager's kernels run below the rate of a copy. That needs bytes in
            flight: with one element a thread an SM has 2048 * 4 = 8 KiB of reads under way, with eight 64 KiB.
Limits      Up to 2^23 elements (50 MB) the trips are to L2, and each launch costs microseconds beside them. A core of a
            CPU computes the exponential in more time than it reads 6 bytes: `fused` in C gains less than its bytes.
            Eager rounds to bfloat16 after each operation, the fused forms once.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import cuda_source, host_source, triton_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler"), bench.on("cuda", requires="sm_80")

LIMIT = 3.0
THREADS = 256
PIECE = 8  # elements of 16 bytes
BLOCK = 2048  # elements of a Triton program

# With finite values and without exceptions a maximum is one instruction. Else it is a branch, and a loop with branches
# is not vectorised.
VECTORS = ("-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast")
host_code = host_source("elementwise_fusion.c", options=VECTORS)
device_code = cuda_source("elementwise_fusion.cu")
triton_code = triton_source("elementwise_fusion_triton.py", archs=("sm_80", "sm_90"))


@bench.workload(
    smoke={"rows": 61, "columns": 521},
    cpu={"rows": 2048, "columns": 2048},
    cuda={"rows": 1 << 14, "columns": 1 << 14},
)
def inputs(rows, columns, device, generator):
    draw = {"device": device, "generator": generator}
    return {
        "x": torch.randn(rows, columns, **draw).bfloat16(),
        "bias": torch.randn(columns, **draw).bfloat16(),
        "scale": (torch.rand(columns, **draw) + 0.5).bfloat16(),
        "residual": torch.randn(rows, columns, **draw).bfloat16(),
    }


@bench.reference(tolerance=bf16)
def reference(x, bias, scale, residual):
    return (functional.gelu(x + bias, approximate="tanh") * scale + residual).clamp(-LIMIT, LIMIT)


@bench.cost
def cost(rows, columns):
    # Two additions, a multiplication, two comparisons; of gelu no more than one operation is counted.
    n = rows * columns
    return Cost(bytes_read=4 * n + 4 * columns, bytes_written=2 * n, flops=6 * n)


# A row, a column; rows that fill no vector, warp or block; a multiple of eight; a row longer than a block of `wide`. Of
# a single element the baseline's roundings may be a large part: the last addition cancels.
bench.awkward(
    {"rows": 1, "columns": 67},
    {"rows": 67, "columns": 1},
    {"rows": 9, "columns": 31},
    {"rows": 17, "columns": 264},
    {"rows": 3, "columns": 4099},
)
# Two streams in and one out, in order, are a copy's traffic.
cuda.reach(of="BW", at_least=0.92)
bench.sass("fused", has=("LDG.U16", "STG.U16"), lacks=("LDG.128", "STG.128"))
bench.sass("wide", has=("LDG.128", "STG.128"))
bench.sass("tile", has=("LDG.128", "STG.128"), lacks="LDG.U16")


@both.baseline(kind="reasonable")
def eager(x, bias, scale, residual):
    return (functional.gelu(x + bias, approximate="tanh") * scale + residual).clamp(-LIMIT, LIMIT)


cpu.variant(
    loop(host_code, out="x", make={"limit": LIMIT})("fused"),
    adds=("fusion", "simd"),
    why="an element is loaded once and stored once; what passes between operations is in a register, as float32",
)

rows_in_cuda = launch(device_code, out="x", make={"limit": LIMIT}, block=THREADS, grid=blocks(rows=1, columns=THREADS))
cuda.variant(
    rows_in_cuda("fused"),
    adds="fusion",
    why="an element is loaded once and stored once: 6 bytes of traffic, not 22",
    predict="at most 3.7x: 22 bytes an element against 6",
)
cuda.variant(
    rows_in_cuda("wide", grid=blocks(rows=1, columns=PIECE * THREADS)),
    builds_on="fused",
    adds="wide accesses",
    why="16 bytes of each tensor in an access, not 2: eight times the bytes in flight while a warp waits",
)
cuda.variant(
    launch(triton_code, out="x", make={"LIMIT": LIMIT, "BLOCK": BLOCK}, grid=blocks(rows=1, columns=BLOCK))("tile"),
    requires="package:triton",
    adds=("fusion", "wide accesses"),
    why="a program of 2048 elements, of which Triton gives each thread neighbours, in accesses of 16 bytes",
    predict="at least 3.7x: 22 bytes an element against 6, and eager below the rate of a copy",
)


@cuda.yardstick(
    requires=("package:triton", "compiler"), why="torch.compile of the five operations, which writes one Triton kernel"
)
class Compiled:
    def prepare(self, x, bias, scale, residual):
        self.call = torch.compile(eager, fullgraph=True, dynamic=False)
        self.call(x, bias, scale, residual)

    def run(self, x, bias, scale, residual):
        return self.call(x, bias, scale, residual)
