"""Precision ladder: each step down buys rate and costs accuracy; both stand in the result.

Question    What does a multi-layer perceptron gain, and lose in accuracy, with fewer bits in its operands?
Numbers     relu(x Wup) Wdown with float32 input and output, 4096 x 8192 x 28672 on a GPU: 3.8 TFLOP. The weights are
            converted once, before the timed calls; each call converts its input.
Prediction  Operands of half the width double the rate of tensor cores: tf32, bf16 and fp8 are each twice as fast as the
            rung above, and int8 is as fast as fp8. Each rung's SOL is a share of its own precision's rate.
Limits      Processors without instructions for bfloat16 or int8 convert in software, and both rungs lose. Small
            products are bound by the conversion. A row with an outlier leaves few bits for its other elements. Rounding
            to 3 bits of mantissa costs 0.026 in the root mean square: four rounded operands miss an error of 0.05.
"""

import math

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, float32_precision, fp32_reduction, lossy
from aiperf_core.kernels import triton_source

# Whatever a rung reads of the weights, it is not what the float32 inputs have: bytes set no bound here.
bench = Benchmark(
    goal="speed",
    clock="device",
    cache="warm",
    no_gain_on={
        "cpu": "without matrix instructions for bfloat16 and int8 a processor converts every operand in software"
    },
)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")

INT8_LARGEST = 127.0
MULTIPLE = 16  # of which `_scaled_mm` wants the sizes of fp8 operands, and `_int_mm` those of int8
LEAST_ROWS = 17  # of `_int_mm`
# Of fp4, as cuBLAS wants the scales of 16 elements each: in tiles of 128 rows and 4 scales.
TILE_ROWS, TILE_COLUMNS = 128, 64
COLUMNS = 1024
kernels = triton_source("precision_ladder_triton.py", archs=("sm_89", "sm_90", "sm_100"), launched_by=("fp8_rowwise",))
kernels_int8 = triton_source(
    "precision_ladder_triton.py", archs=("sm_80", "sm_90", "sm_100"), launched_by=("int8_rowwise",)
)
kernels_fp4 = triton_source("precision_ladder_triton.py", archs=("sm_100",), launched_by=("nvfp4",))


@bench.workload(
    smoke={"tokens": 13, "width": 37, "hidden": 83},
    cpu={"tokens": 256, "width": 512, "hidden": 2048},
    cuda={"tokens": 4096, "width": 8192, "hidden": 28672},
)
def inputs(tokens, width, device, generator):
    return {"x": torch.randn(tokens, width, device=device, generator=generator)}


@bench.static
def weights(width, hidden, device, generator):
    # Each row of `up` is a neuron of the hidden layer, each row of `down` one of the output.
    up = torch.randn(hidden, width, device=device, generator=generator)
    down = torch.randn(width, hidden, device=device, generator=generator)
    return {"up": up.div_(math.sqrt(width)), "down": down.div_(math.sqrt(hidden))}


@bench.reference(tolerance=fp32_reduction)
def reference(x, up, down):
    return torch.relu(x @ up.t()) @ down.t()


@bench.cost
def cost(tokens, width, hidden):
    return Cost(
        bytes_read=4 * (2 * width * hidden + tokens * width),
        bytes_written=4 * tokens * width,
        flops=4 * tokens * width * hidden,
        precision="fp32",
        tokens=tokens,
    )


def cost_in(precision):
    """The cost of a rung whose products have operands of this precision."""

    def rung(tokens, width, hidden):
        return evolve(cost(tokens, width, hidden), precision=precision)

    return rung


bench.awkward({"tokens": 3, "width": 521, "hidden": 61}, {"tokens": 31, "width": 61, "hidden": 1031})
# 3.8 TFLOP take 2.5 ms at 1550 TFLOP/s. To round x and the hidden layer, 0.6 GB, takes 0.14 ms: 2.5 / 2.64, and a tail.
for rung, share in (("fp32", 0.9), ("tf32", 0.9), ("bf16", 0.9), ("fp8_rowwise", 0.88)):
    cuda.reach(of=f"MM:{rung.partition('_')[0]}", at_least=share, implementation=rung)
cuda.reach(of="time:bf16", at_most=1 / 1.5, implementation="fp8_rowwise")
# Sums of 32 bits are written, read and scaled besides: 1.7 GB, 0.4 ms beside 2.5 ms or more.
cuda.reach(of="MM:int8", at_least=0.8, implementation="int8_rowwise")


@both.baseline(kind="reasonable")
class Fp32:
    def prepare(self, x, up, down):
        self.out = torch.empty_like(x)
        self.between = torch.empty(len(x), len(up), device=x.device)

    def run(self, x, up, down):
        torch.mm(x, up.t(), out=self.between).relu_()
        return torch.mm(self.between, down.t(), out=self.out)


@cuda.variant(
    requires="sm_80",
    adds="tf32",
    cost=cost_in("tf32"),
    why="tensor cores take the operands, rounded to 10 bits of mantissa, and sum in float32",
    lossy=lossy("rel_l2", at_most=1e-3),
)
class Tf32(Fp32):
    def run(self, x, up, down):
        with float32_precision("high"):
            return super().run(x, up, down)


@both.variant(
    adds="bfloat16",
    cost=cost_in("bf16"),
    why="half the bytes an operand, and units that multiply twice as many of them at a time",
    lossy=lossy("rel_l2", at_most=5e-3),
)
class Bf16:
    def prepare(self, x, up, down):
        self.up, self.down = up.t().bfloat16(), down.t().bfloat16()
        self.out = torch.empty_like(x)
        self.rounded = torch.empty_like(x, dtype=torch.bfloat16)
        self.between = torch.empty(len(x), len(up), device=x.device, dtype=torch.bfloat16)
        self.narrow = torch.empty_like(self.rounded)

    def run(self, x):
        torch.mm(self.rounded.copy_(x), self.up, out=self.between).relu_()
        return self.out.copy_(torch.mm(self.between, self.down, out=self.narrow))


# Four operands are rounded, each by 0.026 in the root mean square: 0.053, with some scatter where elements are few.
@cuda.variant(
    requires=("sm_89", "package:triton"),
    adds="fp8",
    cost=cost_in("fp8"),
    why="a quarter of the bytes, at twice the rate of bf16; one pass over a row finds its scale, another rounds it",
    lossy=lossy("rel_l2", at_most=6e-2),
)
class Fp8Rowwise:
    def prepare(self, x, up, down):
        self.kernel, self.out = kernels.kernel("quantise_rows"), torch.empty_like(x)
        self.width, self.hidden = (-(-size // MULTIPLE) * MULTIPLE for size in (up.shape[1], len(up)))
        self.up = self.quantised(padded(up, self.hidden), self.width)
        self.down = self.quantised(padded(down, self.width), self.hidden)
        self.narrow_x, self.narrow_between = (eight_bits(len(x), size, x.device) for size in (self.width, self.hidden))

    def run(self, x):
        between = self.product(self.rounded(x, *self.narrow_x, relu=False), self.up)
        product = self.product(self.rounded(between, *self.narrow_between, relu=True), self.down)
        return self.out.copy_(product[:, : self.out.shape[1]])

    def rounded(self, x, out, scales, *, relu):
        """Rows of x as fp8 with a scale each, with `relu` after that function; padding is zero."""
        rows, columns = x.shape
        self.kernel[(rows,)](x, out, scales, columns, out.shape[1], RELU=relu, BLOCK=COLUMNS)
        return out, scales

    def quantised(self, weight, columns):
        """A weight as fp8 with a scale for each row, once and for all."""
        return self.rounded(weight, *eight_bits(len(weight), columns, weight.device), relu=False)

    def product(self, left, right):
        """The product left right^T in bfloat16."""
        (a, a_scales), (b, b_scales) = left, right
        return torch._scaled_mm(
            a, b.t(), scale_a=a_scales, scale_b=b_scales.t(), out_dtype=torch.bfloat16, use_fast_accum=True
        )


@cuda.variant(
    name="int8_rowwise",
    requires=("sm_80", "package:triton"),
    adds="int8",
    cost=cost_in("int8"),
    why="whole numbers at the rate of fp8: even steps over a row, and sums of 32 bits that a pass must scale",
    lossy=lossy("rel_l2", at_most=5e-2),
)
class Int8Tensor:
    def prepare(self, x, up, down):
        self.kernel, self.out = kernels_int8.kernel("whole_rows"), torch.empty_like(x)
        width, hidden = (-(-size // MULTIPLE) * MULTIPLE for size in (up.shape[1], len(up)))
        self.up = self.rounded(padded(up, hidden), whole_memory(hidden, width, x.device))
        self.down = self.rounded(padded(down, width), whole_memory(width, hidden, x.device))
        rows = max(len(x), LEAST_ROWS)
        self.narrow_x, self.narrow_between = (whole_memory(rows, size, x.device) for size in (width, hidden))

    def run(self, x):
        narrow = self.rounded(x, self.narrow_x)
        between = torch._int_mm(narrow[0], self.up[0].t())
        narrow = self.rounded(between, self.narrow_between, narrow[1], self.up[1])
        rows, columns = self.out.shape
        product = torch._int_mm(narrow[0], self.down[0].t())[:rows, :columns]
        return torch.mul(product, narrow[1][:rows], out=self.out).mul_(self.down[1][:columns].t())

    def rounded(self, x, memory, *scales):
        """Rows of x as int8 with a scale each; with `scales` of rows and columns, x has sums of the layer before."""
        out, own = memory
        self.kernel[(len(x),)](
            x, *(scales or (own, own)), out, own, x.shape[1], out.shape[1], HIDDEN=bool(scales), BLOCK=COLUMNS
        )
        return memory


# Rounding takes about 0.095 of each of four operands: 0.18, with some scatter where elements are few.
@cuda.variant(
    requires=("sm_100", "package:triton"),
    adds="nvfp4",
    cost=cost_in("fp8"),  # there is no ceiling of fp4: the fraction may exceed 1
    why="an eighth of the bytes, at twice the rate of fp8; each 16 elements have a scale, which is fp8 itself",
    lossy=lossy("rel_l2", at_most=0.25),
)
class Nvfp4:
    def prepare(self, x, up, down):
        self.kernel, self.out = kernels_fp4.kernel("quantise_blocks"), torch.empty_like(x)
        width, hidden = (-(-size // TILE_COLUMNS) * TILE_COLUMNS for size in (up.shape[1], len(up)))
        self.up = self.quantised(padded(up, hidden), width)
        # relu(z s) = relu(z) s for positive s: the scales of the rows of `up` move into the columns of `down`.
        down = down * self.up[2][: len(up)].t()
        self.down = self.quantised(padded(down, width), hidden)
        self.narrow_x, self.narrow_between = (four_bits(len(x), size, x.device) for size in (width, hidden))

    def run(self, x):
        narrow = self.rounded(x, *self.narrow_x, relu=False)
        between = self.rounded(self.product(narrow, self.up), *self.narrow_between, relu=True)
        product = self.product(between, self.down)[:, : self.out.shape[1]]
        torch.mul(product, narrow[2] * between[2], out=self.out)
        return self.out.mul_(self.down[2][: self.out.shape[1]].t())

    def rounded(self, x, out, scales, row_scales, *, relu):
        """Rows of x as fp4 with the scales of blocks and of rows, with `relu` after that function; padding is zero."""
        rows, columns = x.shape
        self.kernel[(rows,)](x, out, scales, row_scales, columns, 2 * out.shape[1], RELU=relu, BLOCK=COLUMNS)
        return out, scales, row_scales

    def quantised(self, weight, columns):
        """A weight as fp4, once and for all."""
        return self.rounded(weight, *four_bits(len(weight), columns, weight.device), relu=False)

    def product(self, left, right):
        """The product left right^T in bfloat16, without the scales of rows."""
        (a, a_scales, _), (b, b_scales, _) = left, right
        a, b = a.view(torch.float4_e2m1fn_x2), b.view(torch.float4_e2m1fn_x2)
        return torch._scaled_mm(a, b.t(), scale_a=a_scales, scale_b=b_scales, out_dtype=torch.bfloat16)


@bench.variant(
    device="cpu",
    adds="int8",
    cost=cost_in("int8"),
    why="a quarter of the bytes; one instruction multiplies four pairs of whole numbers and adds them up",
    lossy=lossy("rel_l2", at_most=5e-2),
)
class Int8Rowwise:
    def prepare(self, x, up, down):
        self.out = torch.empty_like(x)
        self.up, self.down = (whole_numbers(weight) for weight in (up, down))

    def run(self, x):
        between = self.product(whole_numbers(x), self.up).relu_()
        return self.out.copy_(self.product(whole_numbers(between), self.down))

    def product(self, left, right):
        """The product left right^T in float32."""
        (a, a_scales), (b, b_scales) = left, right
        return torch._int_mm(a, b.t()).float().mul_(a_scales).mul_(b_scales.t())


def padded(weight, rows):
    """A weight with rows of zeros after its own."""
    return torch.nn.functional.pad(weight, (0, 0, 0, rows - len(weight)))


def eight_bits(rows, columns, device):
    """Memory for a matrix of fp8 and a scale for each of its rows."""
    scales = torch.empty(rows, 1, device=device)
    return torch.empty(rows, columns, device=device, dtype=torch.float8_e4m3fn), scales


def whole_memory(rows, columns, device):
    """Memory for a matrix of int8, with zeros in rows that nobody writes, and a scale for each of its rows."""
    return torch.zeros(rows, columns, device=device, dtype=torch.int8), torch.zeros(rows, 1, device=device)


def four_bits(rows, columns, device):
    """Memory for a matrix of fp4, two elements a byte, for the scales of its blocks, and for those of its rows."""
    tiles = -(-rows // TILE_ROWS) * (columns // TILE_COLUMNS)
    # Rows that fill the last tile have scales too, which no kernel writes.
    scales = torch.zeros(512 * tiles, device=device, dtype=torch.float8_e4m3fn)
    packed = torch.empty(rows, columns // 2, device=device, dtype=torch.uint8)
    return packed, scales, torch.empty(rows, 1, device=device)


def whole_numbers(x):
    """A matrix as int8, and the scales of its rows."""
    scales = x.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny).div_(INT8_LARGEST)
    return (x / scales).round_().to(torch.int8), scales
