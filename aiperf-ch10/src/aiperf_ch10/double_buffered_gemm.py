"""Stages: ask for the operands of later steps of a product while this one is multiplied.

Question    What does a block of a matrix product wait for, and how many steps ahead must it ask for operands?
Numbers     C = A B^T, both with rows along k. GPU: bfloat16, 8192 x 8192 x 4096, tiles of 128 x 128 by mma.sync, steps
            of 64: a block asks for 32 KiB a step, and two blocks share a multiprocessor. A step is 1.05 M
            multiply-adds, 1024 cycles of mma.sync at 1024 a cycle. CPU: float32, tiles of 64 x 64.
Prediction  Operands take most of 1000 cycles from L2, as long as they are multiplied: one block alone gains at most 2x
            from stages, and less where a second block multiplies in its gaps. By TMA two instructions replace 16 a
            thread and step: what issue slots they took.
Limits      Small k, of which the stages never fill. mma.sync has half the rate of wgmma, so the library is out of reach
            on sm_90: the rest is the lesson of `ch09.tensor_core_gemm`. On a GPU k is a multiple of 8, so that rows
            start at multiples of 16 bytes. A CPU's core packs and multiplies in turn, and its loads run ahead by
            themselves.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source, tensor_map
from aiperf_core.launches import launch, loop

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cpu": "packing and multiplying take turns on one core, whose loads run ahead by themselves"},
)
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("double_buffered_gemm.cu")
# Strict C11 forbids fused multiply-adds.
host_code = host_source("double_buffered_gemm.c", options=("-ffp-contract=fast",))

# By the bytes of an element; many processors have no arithmetic in bfloat16.
DTYPES = {2: torch.bfloat16, 4: torch.float32}
TILE, STEP, THREADS = 128, 64, 128
STAGE_BYTES = 2 * TILE * STEP * 2
SWIZZLE_BYTES = 2 * STEP


@bench.workload(
    smoke={"m": 70, "n": 131, "k": 200, "element_bytes": 2},
    cpu={"m": 512, "n": 512, "k": 768, "element_bytes": 4},
    cuda={"m": 8192, "n": 8192, "k": 4096, "element_bytes": 2},
)
def inputs(m, n, k, element_bytes, device, generator):
    a = torch.randn(m, k, device=device, generator=generator)
    b = torch.randn(n, k, device=device, generator=generator)
    return {"a": a.to(DTYPES[element_bytes]), "b": b.to(DTYPES[element_bytes])}


def tolerance(element_bytes):
    return bf16 if element_bytes == 2 else fp32_reduction


@bench.reference(tolerance=tolerance)
def reference(a, b):
    return a @ b.T


@bench.cost
def cost(m, n, k, element_bytes):
    return Cost(
        bytes_read=element_bytes * (m + n) * k,
        bytes_written=element_bytes * m * n,
        flops=2 * m * n * k,
        precision="bf16" if element_bytes == 2 else "fp32",
    )


# One row; edges in every direction; fewer steps than stages; rows that the GPU's kernels do not take. A single element
# in float32 may be a difference of products that cancel, which no float32 sum gets right.
shapes = [(1, 97, 8), (128, 128, 32), (129, 127, 40), (300, 513, 264), (17, 5, 1001)]
bench.awkward(*({"m": m, "n": n, "k": k, "element_bytes": size} for m, n, k in shapes for size in (2, 4)))
cuda.reach(of="speedup", at_least=1.35)
cuda.reach(of="time:mm", at_most=1 / 0.6)


def product_like(a, b):
    """Memory for the product."""
    return a.new_empty(a.shape[0], b.shape[0])


def tiles(m, n, k):
    """A block for each tile of C."""
    if k % 8:
        raise SkipError(f"takes k in multiples of 8, so that rows start at multiples of 16 bytes; this is {k}")
    return -(-m // TILE) * -(-n // TILE)


def stages(count):
    """The implementation's shared memory."""
    return {"shared_bytes": count * STAGE_BYTES}


def rows_map(matrix):
    """The tensor map for boxes of 128 rows of a step."""
    if matrix.element_size() != 2:
        raise SkipError("takes bfloat16")
    return tensor_map(matrix, (TILE, STEP), swizzle_bytes=SWIZZLE_BYTES)


product = launch(device_code, kernel="{name}{element_bytes}", out=product_like, grid=tiles, block=THREADS)
loops = loop(host_code, kernel="{name}{element_bytes}", out=product_like)

cuda.baseline(product("one_stage", **stages(1)), kind="reasonable")
cuda.variant(
    product("two_stages", **stages(2)),
    adds="two stages",
    why="the next step's operands arrive while this step is multiplied: tensor cores and memory work at the same time",
)
cuda.variant(
    product("three_stages", **stages(3)),
    builds_on="two_stages",
    adds="three stages",
    why="two steps under way: a step is multiplied faster than its operands take from memory, with or without L2",
    teaches="a step ahead is enough where another block multiplies meanwhile; a third stage takes L1's place",
)
cuda.variant(
    product("tma", make={"a_map": lambda a: rows_map(a), "b_map": lambda b: rows_map(b)}, **stages(3)),
    requires="sm_90",
    builds_on="three_stages",
    adds="tma",
    why="one thread asks for a step by two instructions: 2048 copies of 16 bytes no longer take issue slots of warps",
)

cpu.baseline(loops("one_stage"), kind="reasonable")
cpu.variant(
    loops("packed_ahead"),
    adds="two stages",
    why="loads of the next step are under way while this one is multiplied, without a phase of loads alone",
)


@bench.yardstick(device=("cpu", "cuda"), why="the library's product: cuBLAS, oneDNN or MKL")
class Mm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.mm(a, b.T, out=self.out)
