"""Training step: what counts is samples a second, and most of a step is not arithmetic.

Workload   Steps of stochastic gradient descent with momentum on a multi-layer perceptron with a cross-entropy loss, in
           which every step sees new samples. A call does several steps; all weights and momenta after it are judged.
Baseline   float32, and the samples of a step in micro-batches of a few, whose gradients are accumulated, as is done to
           save memory.
Variants   `fused_batch`: all samples of a step at once.  `bf16` (cuda): autocast, micro-batches as in the baseline.
           `fused_bf16` (cuda): both.  `graph` (cuda): and all steps launched as one.  `fused_update` (cuda): and one
           kernel that reads gradient, momentum and weight once and writes both, and the bfloat16 copy for the next
           step.
Breaks     Batches whose activations do not fit: then micro-batches are what makes the step possible. Bfloat16 gradients
           lose what is small beside their sum; the weights stay in float32, and the error of the momenta is in the
           result.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction, lossy
from aiperf_core.graphs import captured
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="throughput", clock="wall")

CLASSES = 10
# Small enough for the loss to fall at every listed width: steps that overshoot multiply errors of rounding.
RATE, MOMENTUM = 3e-3, 0.9
# The momenta come from earlier steps; they are smaller than what gradients of this network add in a few steps.
EARLIER = 1e-3
BLOCK = 1024
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
    smoke={"steps": 2, "samples": 23, "micro_batch": 5, "width": 29},
    cpu={"steps": 2, "samples": 128, "micro_batch": 16, "width": 512},
    cuda={"steps": 4, "samples": 512, "micro_batch": 32, "width": 4096},
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
def cost(steps, samples, width):
    # A multiply-add each for a weight and a sample: forward, for the weight's gradient, and for what lies below it,
    # which the first layer does not need. Bytes are those of a call; its steps need not all find the weights in a
    # cache.
    first, parameters = width * width, 2 * width * width + CLASSES * width
    return Cost(
        bytes_read=steps * samples * (4 * width + 8) + 8 * parameters,
        bytes_written=8 * parameters,
        flops=steps * samples * 2 * (3 * parameters - first),
        precision="bf16",
        tokens=steps * samples,
    )


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


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class MicroBatches(Training):
    pass


@bench.variant(
    device=("cpu", "cuda"), why="weights are read, gradients written and kernels launched once a step, not once a part"
)
class FusedBatch(Training):
    at_once = True


# Of weights and momenta alike. The cosine between two directions of one length that differ by this part of it is 0.999.
bf16_gradients = lossy("rel_l2", at_most=math.sqrt(2 * (1 - 0.999)))


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="bf16",
    why="tensor cores; but few samples at a time leave the weights to be read, and now to be converted, for each part",
    lossy=bf16_gradients,
)
class Bf16(Training):
    autocast = True


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="fused_bf16",
    builds_on="fused_batch",
    why="with all samples at once the products are large enough for tensor cores to pay",
    lossy=bf16_gradients,
)
class FusedBf16(Training):
    autocast, at_once = True, True


class GraphOf:
    """The steps of another implementation in a CUDA graph."""

    steps: type[Training] = FusedBf16

    def prepare(self, x, labels, weights, momenta, micro_batch):
        training = self.steps()
        training.prepare(x, weights, micro_batch)
        self.training = captured(training.run, x, labels, weights, momenta)

    def run(self):
        return self.training.replay()


@bench.variant(
    device="cuda",
    requires="sm_80",
    builds_on="fused_bf16",
    why="forward, backward and update of all steps are launched as one, without Python and autograd in between",
    lossy=bf16_gradients,
)
class Graph(GraphOf):
    pass


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


@bench.variant(
    device="cuda",
    requires=("sm_80", "package:triton"),
    builds_on="graph",
    why="one pass over gradient, momentum and weight updates them and makes the next step's bfloat16 copy",
    lossy=bf16_gradients,
)
class FusedUpdate(GraphOf):
    steps = OneKernelUpdates


@bench.yardstick(
    device="cuda", requires="package:triton", why="torch.compile of a whole float32 step, forward, backward and update"
)
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
