"""Training in 8 bits: six products at twice the rate, and twelve operands to be rounded for them.

Question    What does a layer's training step gain from products in e4m3, once every operand must be scaled and rounded
            within the step, and how far are its gradients turned?
Numbers     Two matrices, 8192 x 16384, with GELU between, 8192 tokens: 13.2 TFLOP in six products, 16.7 ms at the rate
            of bfloat16, 9.3 at that of e4m3. 670 million elements are rounded twice, by rows and by columns, as e4m3
            operands must lie along the sum: 2 bytes for the largest, 2 read and 1 written each time, 6.7 GB, 1.6 ms.
Prediction  16.7 + 0.5 ms against 9.3 + 1.6 + 0.5: 1.5x. Rounding to 3 bits of mantissa takes 0.026 of an operand and
            0.037 of a product; a gradient behind two of them, and a slope of GELU behind a third, is off by 0.06: a
            cosine of 0.9982.
Limits      Products are T^3, rounding T^2: with 2048 in place of 8192 (`--size short`) it takes four times the share. A
            scale a tensor loses rows 2^13 below the largest. Sizes are multiples of 16, for `per_block` of 128.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16, lossy
from aiperf_core.errors import SkipError

bench = Benchmark(goal="throughput", clock="device", prepare_timeout_s=600)
cuda = bench.on("cuda", requires=("sm_90", "package:triton", "compiler"))

FP8, LARGEST = torch.float8_e4m3fn, 448.0
BLOCK = 128  # of a row that share a scale


@bench.workload(
    smoke={"tokens": 256, "width": 128, "hidden": 384},
    cuda={"tokens": 8192, "width": 8192, "hidden": 16384},
    short={"tokens": 2048, "width": 2048, "hidden": 4096},
)
def inputs(tokens, width, hidden, device, generator):
    def normal(rows, columns, size=1.0):
        return torch.randn(rows, columns, device=device, generator=generator).mul_(size).bfloat16()

    return {
        "x": normal(tokens, width),
        "slope": normal(tokens, width),
        "up": normal(hidden, width, width**-0.5),
        "down": normal(width, hidden, hidden**-0.5),
    }


@bench.reference(tolerance=bf16)
def reference(x, slope, up, down):
    return step(x, slope, up, down, plain, plain)


@bench.cost
def cost(tokens, width, hidden):
    return cost_in("bf16", tokens, width, hidden)


def fp8_cost(tokens, width, hidden):
    """The work with all products in e4m3."""
    return cost_in("fp8", tokens, width, hidden)


def cost_in(precision, tokens, width, hidden):
    """All operands and results in bfloat16, six products."""
    moved = 4 * (tokens * width + width * hidden)
    return Cost(
        bytes_read=moved, bytes_written=moved, flops=12 * tokens * width * hidden, precision=precision, tokens=tokens
    )


@bench.metric
def gradient_turn(output, reference):
    """One less the smallest cosine between a result and the right one."""
    pairs = ((output[name].to(right).flatten(), right.flatten()) for name, right in reference.items())
    return max(1 - float(functional.cosine_similarity(found, right, dim=0)) for found, right in pairs)


# No multiple of 128 anywhere; fewer rows than a block.
bench.awkward({"tokens": 272, "width": 144, "hidden": 400}, {"tokens": 16, "width": 256, "hidden": 128})
# 9.3 ms of products, 1.6 of rounding, 0.5 of GELU against 17.2 is 1.5; a tenth for products below their best rate.
cuda.reach(of="time:bf16", at_most=1 / 1.35, implementation="per_tensor")


def plain(a, b):
    """The product a b^T."""
    return a @ b.t()


def step(x, slope, up, down, product, of_weights):
    """The layer's output, and the gradients of its input and weights for the `slope` of its output."""
    before = product(x, up)
    hidden = functional.gelu(before)
    inner = torch.ops.aten.gelu_backward(product(slope, down.t()), before)
    return {
        "y": product(hidden, down),
        "x": product(inner, up.t()),
        "up": of_weights(inner.t(), x.t()),
        "down": of_weights(slope.t(), hidden.t()),
    }


def scaled_product(a, a_scale, b, b_scale):
    """The product a b^T of operands in e4m3; sums of blocks leave the tensor cores anyway."""
    fast = a_scale.shape[1] == 1
    return torch._scaled_mm(a, b.t(), a_scale, b_scale.t(), out_dtype=torch.bfloat16, use_fast_accum=fast)


def rounded(parts, matrix, over):
    """A matrix in e4m3, in rows, and the scales of its parts: the largest over `over` is the end of the range."""
    scales = parts.abs().amax(over, keepdim=True).float().clamp(min=1e-12) / LARGEST
    return (parts.float() / scales).to(FP8).reshape(matrix.shape).contiguous(), scales


@cuda.baseline(kind="reasonable")
class Bf16:
    product = of_weights = staticmethod(plain)

    def prepare(self, x, slope, up, down):
        self.step = torch.compile(self.compute, dynamic=False)
        self.step(x, slope, up, down)

    def run(self, x, slope, up, down):
        return self.step(x, slope, up, down)

    def compute(self, x, slope, up, down):
        return step(x, slope, up, down, self.product, self.of_weights)


def per_tensor(matrix):
    """A matrix in e4m3 with one scale."""
    return rounded(matrix, matrix, (0, 1))


def per_row(matrix):
    """A matrix in e4m3 with a scale a row."""
    return rounded(matrix, matrix, 1)


def per_block(matrix):
    """A matrix in e4m3 with a scale for 128 of a row, which lie column by column."""
    narrow, scales = rounded(matrix.unflatten(1, (-1, BLOCK)), matrix, 2)
    return narrow, scales.squeeze(2).t().contiguous().t()


budget = lossy("gradient_turn", at_most=1 - 0.998)


@cuda.variant(
    adds="e4m3",
    cost=fp8_cost,
    why="six products at twice the rate, for two more passes over each operand, one of which finds its largest element",
    predict="1.3 to 1.6x: 16.7 + 0.5 ms against 9.3 + 1.6 + 0.5 ms",
    lossy=budget,
)
class PerTensor(Bf16):
    narrow, multiply = staticmethod(per_tensor), staticmethod(scaled_product)

    def product(self, a, b):
        return self.multiply(*self.narrow(a), *self.narrow(b))

    of_weights = product


@cuda.variant(
    builds_on="per_tensor",
    adds="scales of rows",
    cost=fp8_cost,
    why="a row's largest element and its rounding are one kernel, and one row does not decide about another's range",
    predict="0.8 to 1.1x: a pass of 2 bytes less may come from a cache; another kernel of the library multiplies",
    teaches="rows of the same size need no scale of their own, and the library's kernel with scales of rows is slower",
    lossy=budget,
)
class PerRow(PerTensor):
    narrow = staticmethod(per_row)


@cuda.variant(
    builds_on="per_row",
    adds="gradients of weights in bfloat16",
    why="two of six products stay in bfloat16: no operand is rounded by columns, and no rounding is summed over tokens",
    predict="0.75 to 1.0x: 11.8 ms of products in place of 9.3, and 0.8 less for rounding",
    teaches="exacter gradients of weights cost a quarter of the products' time, and half of the rounding comes back",
    lossy=budget,
)
class WeightsInBf16(PerRow):
    of_weights = staticmethod(plain)


@cuda.variant(
    builds_on="per_row",
    adds="scales of blocks",
    cost=fp8_cost,
    why="128 elements of a row have a scale, and each 128 products are added in float32",
    predict="0.7 to 1.0x: sums leave the tensor cores 64 times in a product of 8192",
    teaches="an outlier takes the range of its block alone, and where there is none the sums cost more than they save",
    lossy=budget,
)
class PerBlock(PerTensor):
    narrow = staticmethod(per_block)

    def prepare(self, x, slope, up, down):
        if odd := [size for size in (*x.shape, len(up)) if size % BLOCK]:
            raise SkipError(f"takes sizes in multiples of {BLOCK}; {odd[0]} is none")
        # The compiler knows no scales of blocks in torch 2.11 to 2.13: products are calls between what it compiles.
        self.multiply = torch.compiler.disable(scaled_product)
        super().prepare(x, slope, up, down)
