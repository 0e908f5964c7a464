"""Scales of blocks in a product of e4m3: the sums of a block leave the tensor cores, and are scaled and added there.

Question    A product has scales for blocks of its depth. Must its operands become bfloat16, and what if they need not?
Numbers     8192 x 7168 by 4096 rows of 7168, e4m3, a scale for 128 elements of a row of X and for 128 x 128 of W: 0.48
            TFLOP, 0.34 ms at the rate of e4m3, 0.62 at that of bfloat16; 88 MB of operands. To widen them reads 88 MB
            and writes 176, 0.06 ms. A step of a tile of 128 x 128 is 512 cycles of tensor cores and 32 KB from L2, and
            scales and adds 64 sums of each of 256 threads, 128 cycles of an SM.
Prediction  (0.62 + 0.06) / 0.34 = 2x, if the sums hide behind products, for which two warpgroups take turns, and L2
            delivers 64 bytes a cycle and SM. A tile of 128 x 256 asks for 48, but has sums and products of 256
            registers a thread: it would spill.
Limits      A step is a block of scales: blocks of 32 (MXFP8) would scale four times as often. Fewer tiles than SMs
            (`--size narrow`) read weights, and widening them first doubles that. Rounding X to e4m3 is not timed. The
            depth is a multiple of 16.
"""

import torch
from torch.nn.functional import pad

from aiperf_ch14.descriptors import described
from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.kernels import triton_ahead, triton_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires=("sm_90", "package:triton"))

FP8, LARGEST = torch.float8_e4m3fn, 448.0
ROWS, DEPTH = 128, 128  # DEPTH elements of a row share a scale, and DEPTH rows of W
TILE = {"ROWS": ROWS, "DEPTH": DEPTH, "GROUP": 16}
OPTIONS = {"num_warps": 8, "num_stages": 4}  # a step: 32 KB, of 227; sums and a product: 128 registers a thread
BLOCK = 1024  # elements of a program that widens

kernels = triton_source(
    "fp8_block_gemm_triton.py",
    triton_ahead(
        "descriptors",
        signature=dict.fromkeys(("x_in", "w_in"), f"tensordesc<fp8e4nv[{ROWS}, {DEPTH}]>")
        | {"out_in": f"tensordesc<bf16[{ROWS}, {DEPTH}]>", "x_scales_ptr": "*fp32:16", "w_scales_ptr": "*fp32:16"}
        | dict.fromkeys(("rows", "columns", "depth"), "i32:16"),
        constants=TILE,
        **OPTIONS,
    ),
    archs=("sm_90",),
    launched_by=("widened",),
)


def quantised(matrix, height):
    """A matrix in e4m3, and the scale of each block of `height` rows and DEPTH elements."""
    down, across = -(-len(matrix) // height), -(-matrix.shape[1] // DEPTH)
    blocks = pad(matrix, (0, across * DEPTH - matrix.shape[1], 0, down * height - len(matrix)))
    blocks = blocks.view(down, height, across, DEPTH)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-30) / LARGEST
    codes = (blocks / scales[:, None, :, None]).view(down * height, -1)[: len(matrix), : matrix.shape[1]]
    return codes.to(FP8).contiguous(), scales


@bench.workload(
    smoke={"rows": 200, "columns": 272, "depth": 336},
    cuda={"rows": 8192, "columns": 4096, "depth": 7168},
    narrow={"rows": 512, "columns": 4096, "depth": 7168},
)
def inputs(rows, columns, depth, device, generator):
    if depth % 16:
        raise UsageError(f"depth={depth}; accepted are multiples of 16")
    x, x_scales = quantised(torch.randn(rows, depth, device=device, generator=generator), 1)
    w, w_scales = quantised(torch.randn(columns, depth, device=device, generator=generator), DEPTH)
    # Scales of neighbouring rows are neighbours, as a library takes them.
    return {"x": x, "w": w, "x_scales": x_scales.t().contiguous(), "w_scales": w_scales}


@bench.reference(tolerance=bf16)
def reference(x, w, x_scales, w_scales):
    x_scales = x_scales.t().repeat_interleave(DEPTH, 1)[:, : x.shape[1]]
    w_scales = w_scales.repeat_interleave(DEPTH, 0).repeat_interleave(DEPTH, 1)[: len(w), : w.shape[1]]
    product = (x.to(x_scales) * x_scales) @ (w.to(w_scales) * w_scales).T
    return product.bfloat16() if product.dtype == torch.float32 else product  # float64 where it is the measure


@bench.cost
def cost(rows, columns, depth):
    blocks = -(-depth // DEPTH)
    return Cost(
        bytes_read=(rows + columns) * depth + 4 * blocks * (rows - (-columns // DEPTH)),
        bytes_written=2 * rows * columns,
        flops=2 * rows * columns * depth,
        precision="fp8",
    )


# One element of a result; whole tiles; edges of tiles and blocks; more rows of tiles than a group.
shapes = [(1, 1, 16), (128, 256, 128), (129, 264, 400), (3, 385, 1040), (2200, 144, 48)]
bench.awkward(*({"rows": rows, "columns": columns, "depth": depth} for rows, columns, depth in shapes))
# 512 cycles of a step in 640, if none of the 128 of its sums hide, and 0.97 for the last of 16 waves: 0.78.
cuda.reach(of="MM:fp8", at_least=0.70)
bench.sass("promoted", has=("QGMMA", "FFMA"), lacks="HGMMA", arch="sm_90")
bench.sass("descriptors", has=("QGMMA", "FFMA", "UTMALDG", "UTMASTG"), lacks="HGMMA", arch="sm_90")


@cuda.baseline(kind="naive")
class Widened:
    def prepare(self, x, w, rows, columns, depth):
        self.x, self.w = (torch.empty(one.shape, dtype=torch.bfloat16, device=x.device) for one in (x, w))
        self.out = self.x.new_empty(rows, columns)
        self.widen = kernels.kernel("widen")
        self.blocks = -(-depth // BLOCK)

    def run(self, x, w, x_scales, w_scales, rows, columns, depth):
        of = {"DEPTH": DEPTH, "BLOCK": BLOCK}
        self.widen[(rows, self.blocks)](x, x_scales, self.x, depth, 1, rows, HEIGHT=1, **of)
        self.widen[(columns, self.blocks)](w, w_scales, self.w, depth, w_scales.shape[1], 1, HEIGHT=DEPTH, **of)
        return torch.mm(self.x, self.w.t(), out=self.out)


def tiles(rows, columns):
    return -(-rows // ROWS) * -(-columns // DEPTH)


def product_like(x, rows, columns):
    """Memory for the product."""
    return torch.empty(rows, columns, dtype=torch.bfloat16, device=x.device)


in_tiles = launch(kernels, out=product_like, grid=tiles, make=TILE, options=OPTIONS)

cuda.variant(
    in_tiles("promoted"),
    adds="promoted sums",
    why="tensor cores multiply e4m3 as it is; the sum of 128 products is scaled in registers and added in float32",
    predict="0.9 to 2.0x: half of the cycles of bfloat16 and no copies, from L2 at the end of its rate",
)
cuda.variant(
    in_tiles(
        "descriptors",
        make={
            "x_in": lambda x: described(x, (ROWS, DEPTH)),
            "w_in": lambda w: described(w, (DEPTH, DEPTH)),
            "out_in": lambda out: described(out, (ROWS, DEPTH)),
        },
    ),
    builds_on="promoted",
    adds="tensor descriptors",
    why="one thread asks the copy engine (TMA) for a block; no thread computes addresses, issues copies or stores",
    predict="1.0 to 1.6x: 8 copies of 16 bytes a thread and step, and their 64-bit addresses, beside 512 cycles",
)


@cuda.yardstick(why="torch._scaled_mm with the same scales of blocks, which is cuBLAS from CUDA 12.9 on")
class ScaledMm:
    def prepare(self, x, w, x_scales, w_scales):
        try:
            self.run(x, w, x_scales, w_scales)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise SkipError(f"torch._scaled_mm refuses these scales: {str(error).splitlines()[0]}") from None

    def run(self, x, w, x_scales, w_scales):
        return torch._scaled_mm(x, w.t(), scale_a=x_scales.t(), scale_b=w_scales.t(), out_dtype=torch.bfloat16)
