"""Training step by layers of tooling: launches and small kernels cost more than the products.

Question    What do a fused optimizer, a compiler, a CUDA graph and one buffer of parameters each take off a training
            step of a small transformer?
Numbers     4 steps of AdamW, 12 blocks of width 512, 1024 tokens, bfloat16 products: 38 million parameters. A step has
            243 GFLOP, 0.3 ms at the rate of large products, and an update of 28 bytes a parameter, 0.25 ms. Most of its
            146 products have 0.5 to 2 GFLOP, less than a wave of tiles, and reach a third of that rate: 1 ms. Eager
            execution launches some 600 kernels, 40 a block and the update, at 5 to 10 us each.
Prediction  Eager is bound by launches, 3 to 6 ms a step. A graph leaves the sum of the kernels, about 2 ms.
Limits      Eight times the tokens (`--size large`) are 2.5 ms of products a step: launches hide behind them, and the
            graph gains less. A graph has fixed shapes and addresses: each step copies its batch to a static input.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from aiperf_ch13.activation_memory import block, rounded_products
from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import captured, graphed
from aiperf_core.switches import switch

bench = Benchmark(goal="throughput", clock="wall", subject="host", prepare_timeout_s=600)
both, cuda, cpu = bench.on(("cpu", "cuda")), bench.on("cuda"), bench.on("cpu")

RATE, BETAS, EPS, DECAY = 5e-3, (0.9, 0.999), 1e-8, 0.01
# Both moments come from earlier steps, and are as large as those of these gradients.
EARLIER, SCALE = 10_000, 1e-3
CACHE_BYTES = 128e6  # of the largest last-level cache of a GPU (B200)
SMALL = {"steps": 2, "blocks": 2}
LESSON = {"steps": 4, "blocks": 12, "width": 512, "heads": 8, "length": 128, "vocabulary": 1024, "dtype": "bf16"}


@bench.workload(
    state=("weights", "exp_avg", "exp_avg_sq"),
    smoke=SMALL | {"width": 44, "heads": 2, "batch": 3, "length": 19, "vocabulary": 101, "dtype": "bf16"},
    cpu=SMALL | {"width": 512, "heads": 8, "batch": 1, "length": 32, "vocabulary": 512, "dtype": "fp32"},
    cuda=LESSON | {"batch": 8},
    large=LESSON | {"batch": 64},
)
def inputs(steps, blocks, width, batch, length, vocabulary, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    # What the blocks add to the stream is together about as large as the stream.
    share = 1 / math.sqrt(2 * blocks)
    gains = [1.0, share, 1.0, share] * blocks + [1.0]
    weights = torch.cat(
        [
            normal(rows * columns).mul_(gain / math.sqrt(columns))
            for gain, (rows, columns) in zip(gains, shapes(blocks, width, vocabulary), strict=True)
        ]
    )
    variance = torch.rand(len(weights), device=device, generator=generator).add_(0.5).mul_(SCALE**2)
    return {
        "stream": normal(steps, batch, length, width),
        "labels": torch.randint(vocabulary, (steps, batch, length), device=device, generator=generator),
        "weights": weights,
        "exp_avg": normal(len(weights)).mul_(SCALE),
        "exp_avg_sq": variance,
    }


def tolerance(bits):
    return rounded_products if bits == 16 else fp32_reduction


@bench.reference(tolerance=tolerance)
@torch.enable_grad()
def reference(stream, labels, weights, exp_avg, exp_avg_sq, blocks, width, vocabulary, heads):
    losses = []
    for count, (x, wanted) in enumerate(zip(stream, labels, strict=True), EARLIER + 1):
        weights = weights.detach().requires_grad_()
        losses.append(losses_of(x, wanted, parts(weights, blocks, width, vocabulary), heads, block))
        (gradient,) = torch.autograd.grad(losses[-1].mean(), weights)
        exp_avg = torch.lerp(gradient, exp_avg, BETAS[0])
        exp_avg_sq = torch.lerp(gradient**2, exp_avg_sq, BETAS[1])
        size = (exp_avg_sq / (1 - BETAS[1] ** count)).sqrt() + EPS
        weights = weights * (1 - RATE * DECAY) - RATE / (1 - BETAS[0] ** count) * exp_avg / size
    each = torch.stack(losses).detach()
    return {"losses": each, "weights": weights.detach(), "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


@bench.cost
def cost(steps, blocks, width, batch, length, vocabulary, bits):
    # A multiply-add for each weight and token forward, and two backward, less the gradient of the first input;
    # attention has two products forward and four backward. The forward pass reads all weights, the update weights and
    # moments, which it writes; the cache can keep its own size from one pass to the next.
    tokens, parameters = batch * length, sum(math.prod(shape) for shape in shapes(blocks, width, vocabulary))
    return Cost(
        bytes_read=steps * tokens * (4 * width + 8)
        + max(12 * parameters, 16 * parameters * steps - (2 * steps - 1) * CACHE_BYTES),
        bytes_written=4 * steps * tokens + max(12 * parameters, 12 * parameters * steps - (steps - 1) * CACHE_BYTES),
        flops=steps * (6 * tokens * (parameters - width * width) + 12 * blocks * tokens * length * width),
        precision="bf16" if bits == 16 else "fp32",
        tokens=steps * tokens,
    )


def shapes(blocks, width, vocabulary):
    """The shapes of all weights: four matrices a block, and the head."""
    return [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)] * blocks + [(vocabulary, width)]


def parts(flat, blocks, width, vocabulary):
    """The matrices within one buffer of all parameters."""
    matrices = shapes(blocks, width, vocabulary)
    pieces = flat.split([math.prod(shape) for shape in matrices])
    return [piece.view(shape) for piece, shape in zip(pieces, matrices, strict=True)]


def losses_of(x, labels, matrices, heads, run_block):
    """The cross-entropy of the answer to each token."""
    for first in range(0, len(matrices) - 1, 4):
        x = run_block(x, matrices[first : first + 4], heads)
    logits = functional.linear(functional.layer_norm(x, x.shape[-1:]), matrices[-1])
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")


# One block, one step, and tensors of odd sizes.
bench.awkward(
    {"steps": 1, "blocks": 1, "width": 34, "heads": 1, "batch": 1, "length": 29, "vocabulary": 31},
    {"steps": 3, "blocks": 3, "width": 42, "heads": 3, "batch": 5, "length": 13, "vocabulary": 67},
)
# All steps in one graph are the sum of their kernels: no host and no copy of a batch comes between them.
cuda.reach(of="time:all_steps", at_most=1.15, implementation="one_buffer")
# One pass of 28 bytes a parameter, in place of eight that move two to three times as much.
cpu.reach(of="speedup", at_least=1.5, implementation="fused")


@dataclass(frozen=True)
class Flags:
    fused: bool = switch(
        adds="fused optimizer",
        why="an update is one pass over gradients, weights and moments; torch's default takes a dozen operations",
        predict="1.02 to 1.4x: a dozen operations on lists of 49 tensors, some 0.5 ms of 3 to 6 ms",
    )
    compiled: bool = switch(
        adds="compilation",
        requires=("package:triton", "compiler"),
        why="norms, activations and copies to bfloat16 of a block are few kernels, and its backward pass one call",
        predict="1.1 to 2.5x: half of the launches of a block, whose autograd graph is one node",
    )
    graph: bool = switch(
        adds="graph",
        why="a step is one launch: no Python, no autograd and no launch comes between two kernels",
        predict="1.1 to 3x: about 2 ms of kernels against some 350 launches of 5 to 10 us",
    )
    one_buffer: bool = switch(
        adds="one buffer",
        why="one kernel rounds all weights to bfloat16, and another copies all gradients to a buffer in float32, where "
        "each matrix had its own two kernels",
        predict="1.0 to 1.25x: 98 kernels of 2 us against two passes of 6 bytes a parameter, 0.05 ms each",
        teaches="in a graph a kernel on a matrix of a million elements is about as fast as its bytes",
    )


@cuda.switches(Flags, leave_one_out=True)
@cpu.switches(Flags, ladder=("fused",))
@both.baseline(kind="reasonable")
class Eager:
    """Steps of torch.optim.AdamW on weights and moments that are the harness's memory."""

    flags = Flags()

    def prepare(self, stream, labels, weights, exp_avg, exp_avg_sq, blocks, width, vocabulary, heads, dtype):
        sizes, flags, on_gpu = (blocks, width, vocabulary), self.flags, weights.is_cuda
        self.heads, self.weights, self.losses = heads, weights, weights.new_empty(len(labels), labels[0].numel())
        self.autocast = torch.autocast(weights.device.type, torch.bfloat16, dtype == torch.bfloat16)
        self.block = torch.compile(block, fullgraph=True, dynamic=False) if flags.compiled else block
        if flags.one_buffer:
            self.copy, gradient = torch.empty_like(weights, dtype=dtype), torch.empty_like(weights)
            self.gradients = parts(gradient, *sizes)
        trained = parts(self.copy if flags.one_buffer else weights, *sizes)
        self.parameters = [matrix.detach().requires_grad_() for matrix in trained]
        updated = [weights.detach().requires_grad_()] if flags.one_buffer else self.parameters
        moments = [(exp_avg, exp_avg_sq)]
        if flags.one_buffer:
            updated[0].grad = gradient
        else:
            moments = list(zip(parts(exp_avg, *sizes), parts(exp_avg_sq, *sizes), strict=True))
        capturable = on_gpu and (flags.fused or flags.graph)
        self.optimizer = torch.optim.AdamW(
            updated,
            lr=RATE,
            betas=BETAS,
            eps=EPS,
            weight_decay=DECAY,
            fused=flags.fused or None,
            capturable=capturable,
        )
        self.counts = torch.zeros(len(updated), device=weights.device if capturable else "cpu")
        for weight, count, (first, second) in zip(updated, self.counts, moments, strict=True):
            self.optimizer.state[weight] = {"step": count, "exp_avg": first, "exp_avg_sq": second}
        if flags.graph:
            self.x, self.wanted = torch.empty_like(stream[0]), torch.empty_like(labels[0])
            self.x.copy_(stream[0])
            self.wanted.copy_(labels[0])
            self.captured = captured(self.step, self.x, self.wanted)

    def run(self, stream, labels, weights, exp_avg, exp_avg_sq):
        self.counts.fill_(EARLIER)
        for losses, x, wanted in zip(self.losses, stream, labels, strict=True):
            losses.copy_(self.replay(x, wanted) if self.flags.graph else self.step(x, wanted))
        return {"losses": self.losses, "weights": weights, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}

    def replay(self, x, labels):
        """A step of the graph, whose input is static."""
        self.x.copy_(x)
        self.wanted.copy_(labels)
        return self.captured.replay()

    def step(self, x, labels):
        if self.flags.one_buffer:
            self.copy.copy_(self.weights)
        with self.autocast:
            losses = losses_of(x, labels, self.parameters, self.heads, self.block)
        gradients = torch.autograd.grad(losses.mean(), self.parameters)
        if self.flags.one_buffer:
            torch._foreach_copy_(self.gradients, gradients)
        else:
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
        self.optimizer.step()
        return losses.detach()


class Ungraphed(Eager):
    flags = Flags(fused=True, compiled=True, one_buffer=True)


cuda.yardstick(
    graphed(Ungraphed),
    name="all_steps",
    requires=("package:triton", "compiler"),
    why="all steps in one graph, which reads the batches where they are: the sum of the kernels",
)
