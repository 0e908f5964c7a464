"""Eight bits an element: twice the products a step, if somebody carries the scales.

Question    What does a product in e4m3 gain over bfloat16, and what do scales of tensors, rows and blocks cost?
Numbers     C = X W^T, 8192^3. A step of a tile of 128 x 256 is 48 KB and 1024 cycles in both formats, with 128 of k in
            e4m3 and 64 in bfloat16. Rows of X differ in size by up to 2^14. e4m3 has 3 bits of mantissa, and normal
            numbers from 2^-6 to 448, a range of 2^15; the largest element that shares a scale is at the end of it.
Prediction  1.6 to 2x in time. Rounding takes about 0.026 of each operand, 0.04 of a product. With a scale a tensor the
            smallest rows lie below 2^-6, where e4m3 has steps of 2^-9: about 0.1. A scale a row costs a product for
            each element of C, at the end. Scales of 128 of k cost one in each step, and a second set of sums.
Limits      Operands come in e4m3: what rounds them is not timed. The sums of `per_tensor` and `per_row` stay in tensor
            cores, which keep fewer bits than float32. k is a multiple of 16, n of 8. `per_block` shows its worth only
            where elements of a row differ by more than the range of e4m3.
"""

import torch
from torch.nn.functional import pad

from aiperf_core import Benchmark, Cost, bf16, lossy
from aiperf_core.errors import SkipError
from aiperf_core.kernels import clusters_that_fill, cuda_source, tensor_map
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_90a")
bf16_code = cuda_source("tensor_core_gemm_wgmma.cu", archs=("sm_90a",))
fp8_code = cuda_source("fp8_gemm.cu", archs=("sm_90a",))

FP8, LARGEST = torch.float8_e4m3fn, 448.0
SIZES = 8  # of rows of x, each a quarter of the one before
BLOCK = 128  # of k, and of rows of w, that share a scale
BM, STEP_BYTES, THREADS = 128, 128, 384
PIECES_BYTES = 2 * 2 * 2 * 64 * 64  # two places of 64 x 64 results for each of two warpgroups


def quantised(matrix, rows, columns):
    """The bytes of a matrix in e4m3, and the scale of each block of rows x columns."""
    down, across = -(-len(matrix) // rows), -(-matrix.shape[1] // columns)
    whole = pad(matrix, (0, across * columns - matrix.shape[1], 0, down * rows - len(matrix)))
    blocks = whole.view(down, rows, across, columns)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-30) / LARGEST
    narrow = (blocks / scales[:, None, :, None]).view_as(whole)[: len(matrix), : matrix.shape[1]]
    return narrow.to(FP8).contiguous().view(torch.uint8), scales


@bench.workload(
    smoke={"m": 131, "n": 272, "k": 336},
    cuda={"m": 8192, "n": 8192, "k": 8192},
    short={"m": 8192, "n": 8192, "k": 1024},
)
def inputs(m, n, k, device, generator):
    x = torch.randn(m, k, device=device, generator=generator)
    x *= 4.0 ** -(torch.arange(m, device=device) % SIZES)[:, None]
    w = torch.randn(n, k, device=device, generator=generator)
    given = {"x": x.bfloat16(), "w": w.bfloat16()}
    for form, of_x, of_w in (
        ("tensor", (m, k), (n, k)),
        ("row", (1, k), (1, k)),
        ("block", (1, BLOCK), (BLOCK, BLOCK)),
    ):
        given[f"x_{form}"], x_scales = quantised(given["x"].float(), *of_x)
        given[f"w_{form}"], given[f"w_{form}_scales"] = quantised(given["w"].float(), *of_w)
        given[f"x_{form}_scales"] = x_scales.t().contiguous()  # a thread's rows lie side by side
    return given


@bench.reference(tolerance=bf16)
def reference(x, w):
    return x @ w.T


@bench.cost
def cost(m, n, k):
    return Cost(bytes_read=2 * (m + n) * k, bytes_written=2 * m * n, flops=2 * m * n * k, precision="bf16")


def fp8_cost(m, n, k):
    """The work of operands in e4m3."""
    return Cost(bytes_read=(m + n) * k, bytes_written=2 * m * n, flops=2 * m * n * k, precision="fp8")


bench.accept("cost.bytes_read", because="an implementation reads the operands in one form of four")


@bench.metric
def worst_row(output, reference):
    """The largest relative error of a row of C."""
    return float(((output.to(reference) - reference).norm(dim=1) / reference.norm(dim=1)).max())


# A row; whole tiles and blocks; edges in every direction, of tiles, clusters and blocks of k; several tiles a block.
shapes = [(1, 8, 16), (256, 256, 128), (129, 264, 400), (1000, 520, 1040), (2500, 4104, 48)]
bench.awkward(*({"m": m, "n": n, "k": k} for m, n, k in shapes))
cuda.reach(of="time:scaled_mm", at_most=1 / 0.85, implementation="per_row")
cuda.reach(of="time:wide", at_most=1 / 1.5, implementation="per_row")  # half of the cycles, and all of the power
bench.sass("per_tensor", has=("QGMMA", "UTMALDG.MULTICAST", "UTMASTG"))
bench.sass("per_row", has=("QGMMA", "UTMALDG.MULTICAST", "UTMASTG"))
bench.sass("per_block", has=("QGMMA", "UTMALDG.MULTICAST", "UTMASTG", "FFMA"))


def product_like(x, w):
    """Memory for the product."""
    return x.new_empty(len(x), len(w))


def scaled(code, name, form, columns, stages, **changes):
    """The launch of a kernel with tiles of `columns` columns and so many stages, by as many pairs of blocks as fit."""
    shared_bytes = stages * (BM + columns) * STEP_BYTES + PIECES_BYTES

    def grid(m, n):
        most = clusters_that_fill(code.kernel(changes.get("kernel", name)), 2, THREADS, shared_bytes)
        return 2 * min(-(-m // (2 * BM)) * -(-n // columns), most)

    def rows_map(matrix, rows):
        return tensor_map(matrix, (rows, STEP_BYTES // matrix.element_size()), swizzle_bytes=STEP_BYTES)

    x, w = (f"x_{form}", f"w_{form}") if form else ("x", "w")
    scales = (f"{x}_scales", f"{w}_scales") if form else ()
    of = launch(
        code,
        out=product_like,
        make={
            "a_map": lambda **given: rows_map(given[x], BM),
            "b_map": lambda **given: rows_map(given[w], columns // 2),
            "out_map": lambda out: rows_map(out, 64),
        },
        args=("a_map", "b_map", "out_map", *scales, "m", "n", "k"),
        grid=grid,
        block=THREADS,
        cluster=2,
        shared_bytes=shared_bytes,
    )
    return of(name, **changes)


cuda.baseline(scaled(bf16_code, "wide", "", 256, stages=4, kernel="tma_store"), kind="reasonable")
cuda.variant(
    scaled(fp8_code, "per_tensor", "tensor", 256, stages=4),
    adds="e4m3",
    cost=fp8_cost,
    why="operands of half the bytes: the same copies and the same cycles a step have twice the products",
    predict="1.6 to 2x: half of the steps; twice the products a second also take more power",
    lossy=lossy("worst_row", at_most=0.2),
)
cuda.variant(
    scaled(fp8_code, "per_row", "row", 256, stages=4),
    builds_on="per_tensor",
    adds="scales of rows",
    cost=fp8_cost,
    why="each row of both operands uses the whole range of e4m3; the sums are scaled by row and column at the end",
    predict="0.95 to 1.01x: 64 reads of scales and 128 products a thread and tile, beside 65,000 cycles",
    teaches="scales of rows cost no time worth a name, and the smallest rows are as exact as the largest",
    lossy=lossy("worst_row", at_most=0.1),
)
cuda.variant(
    scaled(fp8_code, "per_block", "block", 128, stages=6),
    builds_on="per_row",
    adds="scales of blocks",
    cost=fp8_cost,
    why="128 of k have a scale, and their sum is added in float32: an outlier takes the range of its block alone",
    predict="0.6 to 0.98x: tiles of half the columns take 1.5 times the bytes, and a step adds 64 sums a thread",
    teaches="e4m3 has an exponent of its own: finer scales are exacter only where a row has a range beyond 2^13",
    lossy=lossy("worst_row", at_most=0.1),
)


@cuda.variant(
    adds="library",
    cost=fp8_cost,
    why="torch._scaled_mm with a scale a tensor: what a library makes of the same operands, with its error",
    lossy=lossy("worst_row", at_most=0.2),
)
class ScaledMm:
    def prepare(self, n, k):
        if n % 16 or k % 16:
            raise SkipError(f"takes n and k in multiples of 16; these are {n} and {k}")

    def run(self, x_tensor, w_tensor, x_tensor_scales, w_tensor_scales):
        return torch._scaled_mm(
            x_tensor.view(FP8),
            w_tensor.view(FP8).t(),
            scale_a=x_tensor_scales,
            scale_b=w_tensor_scales,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )
