"""Mixed precision: where a training step may round, and what its gradients lose.

Question    What do TF32, autocast, weights in bfloat16 and float16 with a loss scale each take, and how exact is each?
Numbers     A step of 6 matrices of 8192 x 2048 for 4096 tokens: 2.3 TFLOP, 45 ms at the rate of strict float32, 5.7 at
            that of TF32, 3 at that of bfloat16. The update, SGD with momentum on float32 weights, moves 20 bytes a
            weight in all rows: 2 GB, 0.5 ms.
Prediction  TF32 rounds operands to 11 bits, bfloat16 to 8, float16 to 11: each 2^-bits / sqrt(3) in the root mean
            square, in every product. Half of the bits are twice the products a second, less what is fixed: update,
            activations and the copies that autocast makes of weights and gradients, 12 bytes a weight, 0.3 ms.
Limits      With 256 tokens (`--size few_tokens`) the update takes longer than the products. Gradients of a mean over 8
            million values begin at 1e-7, and float16's smallest is 6e-8: without a scale of the loss they have a bit
            or none. bfloat16 has float32's range.
"""

import math

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, float32_precision, lossy

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_80")

MOMENTUM = 0.9
SCALE = 2.0**16  # of the loss in float16
rounded_to_tf32 = Tolerance(5e-3, reason="operands rounded to TF32 in every product, forward and backward")


@bench.workload(
    state=("weights", "momenta"),
    smoke={"blocks": 2, "width": 40, "hidden": 72, "tokens": 67},
    cuda={"blocks": 3, "width": 2048, "hidden": 8192, "tokens": 4096},
    few_tokens={"blocks": 3, "width": 2048, "hidden": 8192, "tokens": 256},
)
def inputs(blocks, width, hidden, tokens, device, generator):
    def normal(rows, columns, size=1.0):
        return torch.randn(rows, columns, device=device, generator=generator).mul_(size)

    shapes = [(hidden, width), (width, hidden)] * blocks
    return {
        "x": normal(tokens, width),
        "wanted": normal(tokens, width),
        "weights": [normal(rows, columns, 1 / math.sqrt(columns)) for rows, columns in shapes],
        # Some part of a gradient of the mean loss, so that momenta show its error.
        "momenta": [normal(rows, columns, 0.1 / (math.sqrt(tokens) * width)) for rows, columns in shapes],
    }


@bench.reference(tolerance=rounded_to_tf32)
@torch.enable_grad()
def reference(x, wanted, weights, momenta, tokens, width):
    leaves = [weight.detach().requires_grad_() for weight in weights]
    gradients = torch.autograd.grad(loss_of(leaves, x, wanted), leaves)
    momenta = [MOMENTUM * old + gradient for old, gradient in zip(momenta, gradients, strict=True)]
    moved = [weight - rate_of(tokens, width) * momentum for weight, momentum in zip(weights, momenta, strict=True)]
    return {"weights": moved, "momenta": momenta}


def of_precision(precision):
    """The cost at that precision's rate of products."""

    def cost(blocks, width, hidden, tokens):
        # A multiply-add for each weight and token forward, and two backward; nobody needs the gradient of x.
        parameters, first = 2 * blocks * width * hidden, width * hidden
        return Cost(
            bytes_read=8 * parameters + 8 * tokens * width,
            bytes_written=8 * parameters,
            flops=2 * tokens * (3 * parameters - first),
            precision=precision,
            tokens=tokens,
        )

    return cost


cost = bench.cost(of_precision("tf32"))


@bench.metric
def gradient_error(output, reference):
    """The largest relative error of a matrix of momenta, nearly all of which is this step's gradient."""
    pairs = zip(output["momenta"], reference["momenta"], strict=True)
    return max(float((momentum.to(right) - right).norm() / right.norm()) for momentum, right in pairs)


bench.awkward(
    {"blocks": 1, "width": 8, "hidden": 8, "tokens": 61},
    {"blocks": 3, "width": 31, "hidden": 67, "tokens": 129},
)
# 3 ms of products, 0.5 of update, 0.3 of copies and some 0.6 of activations: 0.68 of the rate of products.
cuda.reach(of="MM:bf16", at_least=0.60)


def loss_of(weights, x, wanted):
    """Half the mean square of what is missing after blocks of two matrices, each added to the stream."""
    for up, down in zip(weights[::2], weights[1::2], strict=True):
        x = x + functional.linear(functional.gelu(functional.linear(x, up)), down)
    return (x.to(wanted.dtype) - wanted).square().mean() / 2


def rate_of(tokens, width):
    """A rate at which a step moves weights by about a tenth of their size."""
    return 0.1 * math.sqrt(tokens * width)


class Step:
    """A step whose products round to `products`, of weights that are the harness's memory."""

    products, float32 = torch.float32, "highest"

    def prepare(self, x, weights, momenta, tokens, width):
        masters = [weight.detach().requires_grad_() for weight in weights]
        self.optimizer = torch.optim.SGD(masters, lr=rate_of(tokens, width), momentum=MOMENTUM, fused=True)
        for master, momentum in zip(masters, momenta, strict=True):
            self.optimizer.state[master] = {"momentum_buffer": momentum}
        self.masters, self.parameters = masters, masters
        self.autocast = torch.autocast(x.device.type, self.products, self.products != torch.float32)

    def run(self, x, wanted, weights, momenta):
        with float32_precision(self.float32):
            self.step(x, wanted)
        return {"weights": weights, "momenta": momenta}

    def step(self, x, wanted):
        self.update(torch.autograd.grad(self.loss(x, wanted), self.parameters))

    def loss(self, x, wanted):
        with self.autocast:
            return loss_of(self.parameters, x, wanted)

    def update(self, gradients):
        for master, gradient in zip(self.masters, gradients, strict=True):
            master.grad = gradient
        self.optimizer.step()


@cuda.baseline(kind="reasonable")
class Tf32(Step):
    float32 = "high"


@cuda.variant(
    adds="strict float32",
    cost=of_precision("fp32"),
    why="no operand is rounded, and no tensor core multiplies float32",
    predict="0.1 to 0.2x: 51 against 406 TFLOP/s, the update beside them",
    teaches="what the others lose in exactness is bought with an eighth of the speed",
)
class Strict(Step):
    pass


@cuda.variant(
    adds="autocast",
    cost=of_precision("bf16"),
    why="products take operands in bfloat16, at twice the rate of TF32; weights, sums and loss stay in float32",
    predict="1.3 to 1.8x: 3 ms of products in place of 5.7, and copies of 0.3 ms, beside 1.1 ms that stay",
    lossy=lossy("gradient_error", at_most=4e-2),
)
class Autocast(Step):
    products, float32 = torch.bfloat16, "high"


@cuda.variant(
    builds_on="autocast",
    adds="weights in bfloat16",
    cost=of_precision("bf16"),
    why="stream and gradients are bfloat16, too: no copy of an activation; float32 weights are for the update alone",
    predict="1.0 to 1.15x: 8 to 16 bytes less for each of 25 million values of the stream",
    teaches="an update from bfloat16 still copies gradients and weights; the stream that it saves is small",
    lossy=lossy("gradient_error", at_most=5e-2),
)
class PureBf16(Step):
    def prepare(self, x, weights, momenta, tokens, width):
        super().prepare(x, weights, momenta, tokens, width)
        self.parameters = [torch.empty_like(weight, dtype=torch.bfloat16).requires_grad_() for weight in weights]
        self.copies = [parameter.detach() for parameter in self.parameters]
        self.gradients = [torch.empty_like(weight) for weight in weights]

    def step(self, x, wanted):
        torch._foreach_copy_(self.copies, [master.detach() for master in self.masters])
        super().step(x.bfloat16(), wanted)

    def update(self, gradients):
        torch._foreach_copy_(self.gradients, gradients)
        super().update(self.gradients)


@cuda.variant(
    builds_on="autocast",
    adds="float16 with a loss scale",
    cost=of_precision("fp16"),
    why="three more bits in every operand; the loss is scaled by 2^16, and the update takes the scale back",
    predict="0.9 to 1.02x: a check of all gradients for infinities, 8 bytes a weight, 0.2 ms",
    teaches="float16 takes the time of bfloat16 and a check, and has an eighth of its error where the scale fits",
    lossy=lossy("gradient_error", at_most=1e-2),
)
class ScaledFp16(Step):
    products, float32 = torch.float16, "high"

    def prepare(self, x, weights, momenta, tokens, width):
        super().prepare(x, weights, momenta, tokens, width)
        # As many steps as a run may take leave the scale as it is.
        self.scaler = torch.amp.GradScaler(x.device.type, init_scale=SCALE, growth_interval=1 << 30)

    def loss(self, x, wanted):
        return self.scaler.scale(super().loss(x, wanted))

    def update(self, gradients):
        for master, gradient in zip(self.masters, gradients, strict=True):
            master.grad = gradient
        self.scaler.step(self.optimizer)
        self.scaler.update()
