"""RMS norm of rows: scale a row while it is on the chip.

Question    What does weight * x / sqrt(mean(x^2) + 1e-6) cost when squares and rows cross memory more than once?
Numbers     2^17 float32 rows of 2^11 values on a GPU, 2^14 on a CPU. The work moves 8 bytes a value. The baseline
            writes and reads the squares, and reads and writes the rows for two products: 28. Floor: 8 bytes a value at
            the rate of a copy.
Prediction  28 / 8 = 3.5x at most from a row that stays on the chip.
Limits      Matrices that fit in the last-level cache. Rows longer than the caches or registers that hold them.
"""

# The file's docstring says what there is to say; an implementation has its `why`.
# ruff: noqa: D103

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source, triton_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler"), bench.on("cuda", requires="sm_80")

EPSILON = 1e-6

host_code, device_code = host_source("rms_norm.c"), cuda_source("rms_norm.cu")
triton_code = triton_source("rms_norm_triton.py")


@bench.workload(
    smoke={"rows": 61, "columns": 1021},
    cpu={"rows": 1 << 14, "columns": 1 << 11},
    cuda={"rows": 1 << 17, "columns": 1 << 11},
)
def inputs(rows, columns, device, generator):
    return {
        "x": torch.randn(rows, columns, device=device, generator=generator),
        "weight": torch.rand(columns, device=device, generator=generator) + 0.5,
    }


@bench.reference(tolerance=fp32_reduction)
def reference(x, weight):
    return x * (x * x).mean(1, keepdim=True).add(EPSILON).rsqrt() * weight


@bench.cost
def cost(rows, columns):
    values = rows * columns
    return Cost(bytes_read=4 * (values + columns), bytes_written=4 * values, flops=4 * values)


# One value; rows that fill no vector, warp or block; rows that end in the middle of one.
bench.awkward({"rows": 1, "columns": 1}, {"rows": 3, "columns": 31}, {"rows": 65, "columns": 4099})
cuda.reach(of="BW", at_least=0.85)

rows_in_c = loop(host_code, out="x")
cpu.baseline(rows_in_c("three_passes", make={"squares": lambda x: torch.empty_like(x)}), kind="naive")
cpu.variant(rows_in_c("fused"), adds="fusion", why="a row is scaled while it is in the cache, and no square is stored")
cpu.variant(
    rows_in_c("vectorised"),
    builds_on="fused",
    adds="simd",
    why="a vector holds several partial sums, where a single sum waits for each addition",
)


@cuda.baseline(kind="naive")
def three_passes(x, weight):
    return x * (x * x).mean(1, keepdim=True).add(EPSILON).rsqrt() * weight


rows_in_cuda = launch(device_code, out="x", grid=blocks(rows=1), block=256)
cuda.variant(
    rows_in_cuda("block_per_row"), adds="fusion", why="a block scales its row while it is in the cache of its processor"
)
cuda.variant(
    rows_in_cuda("shuffled"),
    builds_on="block_per_row",
    adds="warp shuffles",
    why="32 lanes add their sums without a barrier; one barrier is left, not nine",
)
cuda.variant(
    launch(triton_code, out="x", grid=blocks(rows=1), make={"BLOCK": lambda columns: 1 << (columns - 1).bit_length()})(
        "row_in_registers"
    ),
    requires="package:triton",
    adds=("fusion", "registers"),
    why="a program keeps its row in registers: each value is loaded once",
)


@both.yardstick(name="torch", why="torch.nn.functional.rms_norm")
def library(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)
