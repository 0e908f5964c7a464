"""Training step: the metric is samples a second, and most of a step is not arithmetic.

Question    Where does the time of a small network's training step go, when its products take a tenth of it?
Numbers     Four steps of SGD with momentum on a perceptron of 2 x 4096^2 weights, 512 samples each, cross-entropy. The
            products are 0.44 ms at bfloat16 rates. An update reads gradient, momentum and weight, and writes momentum,
            weight and a bfloat16 copy: 20 bytes a parameter beside the products, 0.63 ms for four steps.
Prediction  Products and updates follow each other: 1.1 ms at least. 16 micro-batches cost 16 times the launches and
            reads of weights; a graph removes Python; one kernel a matrix updates in one pass in place of four.
Limits      Batches whose activations do not fit in memory need micro-batches. A bfloat16 gradient loses terms that are
            small beside their sum. `update_error` judges bfloat16 variants: the error of each weight relative to the
            distance that the last step moved it.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction, lossy
from aiperf_core.graphs import graphed
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="throughput", clock="wall")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="sm_80")

CLASSES = 10
# Small enough for the loss to fall at every listed width: steps that overshoot multiply errors of rounding.
RATE, MOMENTUM = 3e-3, 0.9
# The momenta come from earlier steps; they are smaller than what gradients of this network add in a few steps.
EARLIER = 1e-3
BLOCK = 1024
CACHE_BYTES = 128e6  # of the largest last-level cache of a GPU (B200)
kernels = triton_source(
    "train_step_triton.py",
    triton_ahead(
        "update",
        signature={
            "weight_ptr": "*fp32:16",
            "momentum_ptr": "*fp32:16",
            "gradient_ptr": "*bf16:16",
            "copy_ptr": "*bf16:16",
            "n": "i32:16",
            "rate": "fp32",
            "momentum": "fp32",
        },
        constants={"BLOCK": BLOCK},
    ),
)


@bench.workload(
    state=("weights", "momenta"),
    smoke={"steps": 2, "samples": 23, "micro_batch": 5, "width": 29, "operand_bytes": 4},
    cpu={"steps": 2, "samples": 128, "micro_batch": 16, "width": 512, "operand_bytes": 4},
    cuda={"steps": 4, "samples": 512, "micro_batch": 32, "width": 4096, "operand_bytes": 2},
)
def inputs(steps, samples, width, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    sizes = [(width, width), (width, width), (CLASSES, width)]
    return {
        "x": normal(steps, samples, width),
        "labels": torch.randint(CLASSES, (steps, samples), device=device, generator=generator),
        "weights": [normal(*size).mul_(math.sqrt(2 / width)) for size in sizes],
        "momenta": [normal(*size).mul_(EARLIER) for size in sizes],
    }


@bench.reference(tolerance=fp32_reduction)
@torch.enable_grad()
def reference(x, labels, weights, momenta):
    weights, momenta = list(weights), list(momenta)
    for samples, wanted in zip(x, labels, strict=True):
        leaves = [weight.detach().requires_grad_() for weight in weights]
        gradients = torch.autograd.grad(loss_of(leaves, samples, wanted), leaves)
        momenta = [MOMENTUM * old + gradient for old, gradient in zip(momenta, gradients, strict=True)]
        weights = [old - RATE * momentum for old, momentum in zip(weights, momenta, strict=True)]
    return {"weights": weights, "momenta": momenta}


@bench.cost
def cost(steps, samples, width, operand_bytes):
    # `operand_bytes` are those of the narrowest variant: bfloat16 on a GPU, float32 on a CPU.
    # A multiply-add each for a weight and a sample: forward, for the gradient of the weight, and for the gradient of
    # the layer's input, which the first layer does not need.
    first, parameters = width * width, 2 * width * width + CLASSES * width
    # A step reads all weights forward, and all weights and momenta for the update, which writes both. The cache can
    # keep its own size from one pass to the next; the first pass finds it cold.
    read, written = 12 * parameters * steps, 8 * parameters * steps
    return Cost(
        bytes_read=steps * samples * (4 * width + 8) + max(8 * parameters, read - (2 * steps - 1) * CACHE_BYTES),
        bytes_written=max(8 * parameters, written - (steps - 1) * CACHE_BYTES),
        flops=steps * samples * 2 * (3 * parameters - first),
        precision="bf16" if operand_bytes == 2 else "fp32",
        tokens=steps * samples,
    )


@bench.metric
def update_error(output, reference):
    """The largest relative error of a momentum; of a weight, relative to what the last step moved it by."""
    errors = [
        (found.to(right) - right).norm() / (moved * momentum.norm())
        for name, moved in (("weights", RATE), ("momenta", 1.0))
        for found, right, momentum in zip(output[name], reference[name], reference["momenta"], strict=True)
    ]
    return torch.stack(errors).max().item()


# The smallest; primes, with a last micro-batch that is smaller.
bench.awkward(
    {"steps": 1, "samples": 1, "micro_batch": 1, "width": 61},
    {"steps": 3, "samples": 17, "micro_batch": 7, "width": 31},
)
# The speed of light is the longer of products (0.44 ms) and traffic. A step has both in turn, 1.1 ms: at most 40 % of
# SOL. Two thirds of that are left beside some hundred small kernels.
cuda.reach(of="SOL", at_least=0.26)


def loss_of(weights, samples, labels):
    """Mean cross-entropy of the network's answers."""
    for weight in weights[:-1]:
        samples = torch.nn.functional.gelu(samples @ weight.t())
    return torch.nn.functional.cross_entropy(samples @ weights[-1].t(), labels)


class Training:
    """Steps on parameters that are the harness's weights, `micro_batch` samples at a time or all at once."""

    autocast = False
    at_once = False

    def prepare(self, x, weights, micro_batch):
        self.parameters = [weight.detach().requires_grad_() for weight in weights]
        self.size = x.shape[1] if self.at_once else micro_batch
        self.precision = precision_of(x.device, self.autocast)

    def run(self, x, labels, weights, momenta):
        for samples, wanted in zip(x, labels, strict=True):
            update(weights, momenta, self.gradients(samples, wanted))
        return {"weights": weights, "momenta": momenta}

    def gradients(self, samples, labels):
        """The gradients of the mean loss of all samples, added up over parts."""
        total: list[torch.Tensor] = []
        for part, wanted in zip(samples.split(self.size), labels.split(self.size), strict=True):
            with self.precision:
                loss = loss_of(self.parameters, part, wanted)
            found = torch.autograd.grad(loss * (len(part) / len(samples)), self.parameters)
            total = [old.add_(new) for old, new in zip(total, found, strict=True)] if total else list(found)
        return total


def update(weights, momenta, gradients):
    """Move momenta and weights, in place."""
    for weight, momentum, gradient in zip(weights, momenta, gradients, strict=True):
        momentum.mul_(MOMENTUM).add_(gradient)
        weight.add_(momentum, alpha=-RATE)


def precision_of(device, autocast):
    """Where it is entered, products take bfloat16 operands, or whatever they are given."""
    # Autocast's cache would keep copies of weights that have been updated since.
    return torch.autocast(device.type, torch.bfloat16, autocast, cache_enabled=False)


@both.baseline(kind="reasonable")
class MicroBatches(Training):
    pass


@both.variant(
    adds="whole batch",
    why="weights are read, gradients written and kernels launched once a step, not once a micro-batch",
)
class FusedBatch(Training):
    at_once = True


# A direction of the same length that is off by this part has a cosine of 0.999 with the right one.
bf16_gradients = lossy("update_error", at_most=math.sqrt(2 * (1 - 0.999)))


@cuda.variant(
    builds_on="fused_batch",
    adds="bfloat16",
    why="with all samples at once the products are large enough for tensor cores to pay",
    lossy=bf16_gradients,
)
class FusedBf16(Training):
    autocast, at_once = True, True


cuda.variant(
    graphed("fused_bf16"),
    name="graph",
    builds_on="fused_bf16",
    adds="graph",
    why="one launch for forward, backward and update of all steps, without Python and autograd in between",
    lossy=bf16_gradients,
)


class OneKernelUpdates(Training):
    """Trains on bfloat16 copies of the weights, which the kernel that updates the weights writes as well."""

    autocast, at_once = True, True

    def prepare(self, x, weights, micro_batch):
        super().prepare(x, weights, micro_batch)
        self.kernel = kernels.kernel("update")
        self.parameters = [weight.bfloat16().requires_grad_() for weight in weights]

    def run(self, x, labels, weights, momenta):
        for parameter, weight in zip(self.parameters, weights, strict=True):
            parameter.detach().copy_(weight)
        for samples, wanted in zip(x.bfloat16(), labels, strict=True):
            gradients = [one.contiguous() for one in self.gradients(samples, wanted)]
            for one in zip(weights, momenta, gradients, self.parameters, strict=True):
                n = one[0].numel()
                self.kernel[(-(-n // BLOCK),)](*one, n, RATE, MOMENTUM, BLOCK=BLOCK)
        return {"weights": weights, "momenta": momenta}


cuda.variant(
    graphed(OneKernelUpdates),
    name="fused_update",
    requires="package:triton",
    builds_on="graph",
    adds="fused update",
    why="one pass over gradient, momentum and weight updates them and makes the next step's bfloat16 copy",
    lossy=bf16_gradients,
)


@cuda.yardstick(requires="package:triton", why="torch.compile of a whole float32 step, forward, backward and update")
class Compiled:
    def prepare(self, x, labels, weights, momenta):
        self.parameters = [weight.detach().requires_grad_() for weight in weights]
        self.loss, self.update = torch.compile(loss_of), torch.compile(update)
        self.run(x, labels, weights, momenta)  # compiles

    def run(self, x, labels, weights, momenta):
        for samples, wanted in zip(x, labels, strict=True):
            gradients = torch.autograd.grad(self.loss(self.parameters, samples, wanted), self.parameters)
            self.update(weights, momenta, gradients)
        return {"weights": weights, "momenta": momenta}
