"""Operations behind a product: a trip to memory each, or some cycles of a tile whose sums are still in registers.

Question    Bias, activation and residual behind a product: what do they cost as kernels, in one pass, and in the
            product's epilogue?
Numbers     gelu(X W^T + bias) + residual in bfloat16, 8192 x 8192 with k = 4096: 0.55 PFLOP of 1000, 0.7 ms at the
            library's rate. Eager has the bias in the product, and moves 4 bytes a value for gelu and 6 for the sum:
            0.67 GB, 0.16 ms. One pass moves 6, 0.10 ms. In the epilogue, 32,768 results of a tile are as many
            special functions, 2,048 cycles beside 65,536 of products, and 2 bytes a value of residual.
Prediction  1.07x from one pass, 1.12 to 1.2x from the epilogue. Its loads of the residual wait for memory at the end
            of each tile, some 1,000 cycles, unless the last products hide them. SwiGLU (`--size swiglu`): rows of W
            in turn from gate and up give a thread the sums of both, and half as many results are stored.
Limits      What is saved does not grow with k: at k = 1024 (`--size short`) it is half of the time, at 16384 a
            twentieth. A backward pass needs Y, which the epilogue never stores. k and n are multiples of 8.
"""

import math

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import clusters_that_fill, cuda_source, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_90a")
product_code = cuda_source("tensor_core_gemm_wgmma.cu", archs=("sm_90a",))
device_code = cuda_source("gemm_epilogue_fusion.cu", archs=("sm_90a",))

BM, BN, BK, THREADS = 128, 256, 64, 384
HIDDEN = BN // 2  # columns of a tile that gate, and then as many that are gated
SHARED_BYTES = 4 * 2 * (BM + BN) * BK + 2 * 2 * 2 * 64 * 64  # four stages, and two places for results of each warpgroup
PASS_THREADS = 256


@bench.workload(
    smoke={"m": 131, "n": 272, "k": 328, "gated": 0},
    cuda={"m": 8192, "n": 8192, "k": 4096, "gated": 0},
    short={"m": 8192, "n": 8192, "k": 1024, "gated": 0},
    swiglu={"m": 8192, "n": 28672, "k": 4096, "gated": 1},
)
def inputs(m, n, k, gated, device, generator):
    x = torch.randn(m, k, device=device, generator=generator)
    residual = torch.randn(m, columns_of(n, gated), device=device, generator=generator)
    return {"x": x.bfloat16(), "residual": residual.bfloat16()}


@bench.static
def parameters(n, k, device, generator):
    w = torch.randn(n, k, device=device, generator=generator) / math.sqrt(k)
    return {"w": w.bfloat16(), "bias": torch.randn(n, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x, w, bias, residual, gated):
    y = functional.linear(x, w, bias)
    if not gated:
        return functional.gelu(y, approximate="tanh") + residual
    gate, up = y.chunk(2, -1)
    return functional.silu(gate) * up + residual


@bench.cost
def cost(m, n, k, gated):
    results = m * columns_of(n, gated)
    read = 2 * ((m + n) * k + n + results)
    return Cost(bytes_read=read, bytes_written=2 * results, flops=2 * m * n * k, precision="bf16")


def columns_of(n, gated):
    """Columns of the result."""
    return n // 2 if gated else n


# A row and a piece; tiles and half tiles; edges in every direction; several tiles a cluster.
shapes = [(1, 16, 8), (256, 256, 64), (129, 528, 72), (2500, 4112, 40)]
bench.awkward(*({"m": m, "n": n, "k": k, "gated": gated} for m, n, k in shapes for gated in (0, 1)))
# The product of `ch09.tensor_core_gemm` at 0.97 of the library's rate, and 0.95 of that: 3,000 of 65,536 cycles a tile.
cuda.reach(of="MM:bf16", at_least=0.92, implementation="residual_ahead")
cuda.reach(of="time:compiled", at_most=1.0, size="swiglu", implementation="residual_ahead")
for name in ("fused", "residual_ahead"):
    for form in ("gelu", "swiglu"):
        bench.sass(f"{name}_{form}", has=("HGMMA", "MUFU.TANH", "UTMASTG"), lacks="MUFU.EX2")


def result_like(x, w, gated):
    """Memory for the result."""
    return x.new_empty(len(x), columns_of(len(w), gated))


def form_of(gated):
    return "swiglu" if gated else "gelu"


def whole_pieces(n, k, gated):
    """Refuse rows that do not start at multiples of 16 bytes."""
    if k % 8 or columns_of(n, gated) % 8:
        raise SkipError(f"takes rows in multiples of 8 elements; k is {k} and n {n}")


def rows_map(matrix, rows):
    return tensor_map(matrix, (rows, BK), swizzle_bytes=2 * BK)


def pairs_of_blocks(code, kernel, m, n):
    most = clusters_that_fill(code.kernel(kernel), 2, THREADS, SHARED_BYTES)
    return 2 * min(-(-m // (2 * BM)) * -(-n // BN), most)


def in_turn(of_w, gated):
    """Rows of gate and up in turns of `HIDDEN`, the last filled up with zeros; without a gate, as they are."""
    if not gated:
        return of_w
    halves = [functional.pad(half, (0,) * (2 * half.dim() - 1) + (-len(half) % HIDDEN,)) for half in of_w.chunk(2)]
    return torch.stack([half.unflatten(0, (-1, HIDDEN)) for half in halves], 1).flatten(0, 2).contiguous()


@cuda.baseline(kind="reasonable")
def eager(x, w, bias, residual, gated):
    return reference(x, w, bias, residual, gated)


@cuda.variant(
    adds="one pass",
    why="bias, activation and residual are one kernel: what is between them is not stored",
    predict="1.03 to 1.12x: 6 bytes a value behind the product, in place of 10",
)
class OnePass:
    def prepare(self, x, w, m, n, k, gated):
        whole_pieces(n, k, gated)
        self.y, self.out, self.columns = x.new_empty(m, n), result_like(x, w, gated), columns_of(n, gated)
        self.product, self.activate = product_code.kernel("tma_store"), device_code.kernel(f"pass_{form_of(gated)}")
        self.maps = rows_map(x, BM), rows_map(w, BN // 2), rows_map(self.y, 64)
        self.grid = pairs_of_blocks(product_code, "tma_store", m, n)

    def run(self, bias, residual, m, n, k):
        shape = {"block": THREADS, "cluster": 2, "shared_bytes": SHARED_BYTES}
        self.product(*self.maps, m, n, k, grid=self.grid, **shape)
        grid = (m, -(-self.columns // (8 * PASS_THREADS)))
        self.activate(self.out, self.y, bias, residual, self.columns, grid=grid, block=PASS_THREADS)
        return self.out


in_epilogue = launch(
    device_code,
    kernel="{name}_{form}",
    out=result_like,
    make={
        "checked": whole_pieces,
        "form": form_of,
        "turns": lambda w, gated: in_turn(w, gated),
        "turns_bias": lambda bias, gated: in_turn(bias, gated),
        "rows": lambda turns: len(turns),
        "columns": columns_of,
        "x_map": lambda x: rows_map(x, BM),
        "w_map": lambda turns: rows_map(turns, BN // 2),
        "out_map": lambda out: rows_map(out, 64),
    },
    args=("x_map", "w_map", "out_map", "turns_bias", "residual", "m", "rows", "columns", "k"),
    grid=lambda m, rows, form: pairs_of_blocks(device_code, f"fused_{form}", m, rows),
    block=THREADS,
    cluster=2,
    shared_bytes=SHARED_BYTES,
)

cuda.variant(
    in_epilogue("fused"),
    builds_on="one_pass",
    adds="epilogue",
    why="bias, activation and residual take the sums from registers: the product is never stored",
    predict="1.03 to 1.12x: 4 of 6 bytes a value less, and no pass whose reads wait for the product's end",
)
cuda.variant(
    in_epilogue("residual_ahead"),
    builds_on="fused",
    adds="loads before the wait",
    why="a thread asks for its part of the residual behind the start of a tile's last products, not behind their end",
    predict="0.99 to 1.04x: some 1,000 cycles of a latency less, beside 68,000 of a tile",
    teaches="the latency of a tile's residual is a hundredth of its products: it shows where k is small",
)


@cuda.yardstick(requires=("package:triton", "compiler"), why="torch.compile: the library's product, then one kernel")
class Compiled:
    def prepare(self, x, w, bias, residual, gated):
        self.call = torch.compile(reference, fullgraph=True, dynamic=False)
        self.call(x, w, bias, residual, gated)

    def run(self, x, w, bias, residual, gated):
        return self.call(x, w, bias, residual, gated)
