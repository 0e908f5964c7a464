"""Residual and norm in one pass: what the next operation needs should not go to memory first.

Question    A transformer adds a residual and norms the sum, and needs both results. How many bytes must that move?
Numbers     total = x + residual, y = weight total / sqrt(mean(total^2) + 1e-6), 16384 rows of 8192 in bfloat16, float32
            in between: 8 bytes an element, 1.07 GB, 0.25 ms at the rate of a copy. Five torch operations in float32
            move 70.
Prediction  70 / 8 = 8.7x at most from one pass. In CUDA C++ with 2 bytes an access too few bytes are in flight; 16
            bytes an access are enough.
Limits      Rows longer than registers (32768 columns) or shared memory (24576) hold. Few rows leave SMs idle. `wide`
            needs rows of a multiple of eight elements, else it is `block_per_row`.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source, triton_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu", requires="compiler"), bench.on("cuda", requires="sm_80")

EPSILON = 1e-6
# With 16 warps it is 64 float32 sums a thread.
LONGEST = 1 << 15
# Columns of which the float32 sums fit in the 99 KiB of shared memory that every GPU from sm_80 on gives a block.
MOST_SHARED = 24 * 1024
ROWS = 8  # of a program of `several_rows`

host_code, device_code = host_source("norm_fusion.c"), cuda_source("norm_fusion.cu")
triton_code = triton_source("norm_fusion_triton.py", archs=("sm_80", "sm_90"))


@bench.workload(
    smoke={"rows": 61, "columns": 521},
    cpu={"rows": 4096, "columns": 1024},
    cuda={"rows": 16384, "columns": 8192},
    short={"rows": 65536, "columns": 1024},
)
def inputs(rows, columns, device, generator):
    x = torch.randn(rows, columns, device=device, generator=generator)
    residual = 2 * torch.randn(rows, columns, device=device, generator=generator)
    weight = torch.rand(columns, device=device, generator=generator) + 0.5
    return {"x": x.bfloat16(), "residual": residual.bfloat16(), "weight": weight.bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x, residual, weight):
    total = x + residual
    return {"total": total, "y": total * total.square().mean(1, keepdim=True).add(EPSILON).rsqrt() * weight}


@bench.cost
def cost(rows, columns):
    # Of each element: an addition, a multiply-add for the sum of squares, two multiplications.
    n = rows * columns
    return Cost(bytes_read=4 * n + 2 * columns, bytes_written=4 * n, flops=5 * n)


# One element; rows that fill no vector, warp or block; a multiple of eight; longer than a block takes at once.
bench.awkward(
    {"rows": 1, "columns": 1}, {"rows": 9, "columns": 31}, {"rows": 17, "columns": 264}, {"rows": 3, "columns": 4099}
)
cuda.reach(of="BW", at_least=0.92)
cuda.reach(of="BW", at_least=0.92, size="short")


@both.baseline(kind="reasonable")
def eager(x, residual, weight):
    total = x.float() + residual.float()
    scale = total.square().mean(1, keepdim=True).add(EPSILON).rsqrt()
    return {"total": total.bfloat16(), "y": (total * scale * weight.float()).bfloat16()}


def block_of(columns, longest=LONGEST):
    """The power of two that holds a row. Raises `SkipError` for a row that no program holds."""
    if columns > longest:
        raise SkipError(f"holds a row of up to {longest} columns; this one has {columns}")
    return 1 << (columns - 1).bit_length()


def warps_of(block):
    """Warps for which a thread holds 16 elements; more of them where there are no more warps."""
    return min(16, max(1, block // 512))


common = {
    "make": {"total": lambda x: torch.empty_like(x), "y": lambda x: torch.empty_like(x)},
    "returns": lambda total, y: {"total": total, "y": y},
}

rows_in_c = loop(host_code, **common)
cpu.variant(
    rows_in_c("fused"),
    adds="fusion",
    why="a row is added, summed and scaled while it is in the cache, and no float32 value is stored",
)
cpu.variant(
    rows_in_c("simd"),
    builds_on="fused",
    adds="simd",
    why="a vector holds several partial sums of squares, where a single sum waits for each addition",
)

programs = launch(
    triton_code, grid=blocks(rows=1), options={"num_warps": lambda columns: warps_of(block_of(columns))}, **common
)
cuda.variant(
    programs("row_in_registers", make={"BLOCK": block_of}),
    requires="package:triton",
    adds=("fusion", "registers"),
    why="a row is loaded once, and waits in registers for its scale; only results are stored",
)
cuda.variant(
    programs("several_rows", grid=blocks(rows=ROWS), make={"BLOCK": block_of, "ROWS": ROWS}),
    requires="package:triton",
    builds_on="row_in_registers",
    adds="reused weight",
    why="the weight is loaded once for eight rows, and fewer programs start and end",
    teaches="with 8192 columns a program is long: its start and the weight, which L2 holds, cost nothing to save "
    "(`--size short` has rows of 1024)",
)

rows_in_cuda = launch(
    device_code,
    grid=blocks(rows=1),
    block=256,
    shared_bytes=lambda columns: 4 * min(block_of(columns, MOST_SHARED), -(-columns // 8) * 8),
    **common,
)
cuda.variant(
    rows_in_cuda("block_per_row"),
    adds=("fusion", "shared memory", "warp shuffles"),
    why="the float32 sums of a row wait in shared memory for its scale; only results are stored",
)
cuda.variant(
    rows_in_cuda("wide"),
    builds_on="block_per_row",
    adds="wide accesses",
    why="16-byte accesses: eight times the bytes in flight in the same threads",
)


@both.yardstick(name="torch", why="an addition, and torch.nn.functional.rms_norm of its result")
def library(x, residual, weight):
    total = x + residual
    return {"total": total, "y": torch.nn.functional.rms_norm(total, weight.shape, weight, EPSILON)}
