"""Activation memory: a training step need not keep what it can compute again or put elsewhere.

Question    A block of a transformer keeps 36 bytes an element of its stream for the backward pass. Which of them are
            cheaper to compute again, or to fetch again, than to keep?
Numbers     48 blocks, 8192 tokens of width 1024, a float32 stream, bfloat16 products: 14.5 GB of activations beside 2.4
            GB of gradients, and 10 bytes for each of 8192 x 8192 logits. Each step is one CUDA graph, so that a time is
            the GPU's and not Python's.
Prediction  `full` keeps 4 of 36 bytes and computes a forward pass again: at most 1/3 more time. `selective` keeps the
            products, 22 of 36 bytes, and computes again only what memory bounds. `offloaded` moves 1.6 GB each way, 29
            ms over PCIe beside some 75 ms of products.
Limits      The peak cannot fall below gradients and logits, which no variant touches: short sequences and few blocks
            have little to save. A graph keeps its memory between calls.
"""

import math
from collections import deque
from functools import partial

import torch
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.graphs import captured

bench = Benchmark(goal="memory", clock="wall", prepare_timeout_s=600)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")

LEAVING = 4  # inputs of blocks that are on their way to the host

# A product's operands and its result are rounded to bfloat16, each by about 2^-9 / sqrt(3) in the root mean square, and
# a gradient has come through several products of each block above it. Depth adds little: the stream between the blocks
# is float32, and each block adds a small part to it.
rounded_products = Tolerance(1.5e-2, reason="operands rounded to bfloat16 in every product, forward and backward")


@bench.workload(
    smoke={"blocks": 2, "every": 2, "width": 44, "heads": 2, "batch": 3, "length": 19, "vocabulary": 101},
    cpu={"blocks": 8, "every": 4, "width": 128, "heads": 4, "batch": 16, "length": 128, "vocabulary": 512},
    cuda={"blocks": 48, "every": 8, "width": 1024, "heads": 16, "batch": 8, "length": 1024, "vocabulary": 8192},
    long={"blocks": 48, "every": 8, "width": 1024, "heads": 16, "batch": 2, "length": 4096, "vocabulary": 8192},
)
def inputs(batch, length, width, vocabulary, device, generator):
    return {
        "stream": torch.randn(batch, length, width, device=device, generator=generator),
        "labels": torch.randint(vocabulary, (batch, length), device=device, generator=generator),
    }


@bench.static
def parameters(blocks, width, vocabulary, device, generator):
    def matrix(rows, columns, gain=1.0):
        return torch.randn(rows, columns, device=device, generator=generator).mul_(gain / math.sqrt(columns))

    # What the blocks add to the stream is together about as large as the stream.
    share = 1 / math.sqrt(2 * blocks)
    stack = [
        [
            matrix(3 * width, width),
            matrix(width, width, share),
            matrix(4 * width, width),
            matrix(width, 4 * width, share),
        ]
        for _ in range(blocks)
    ]
    return {"weights": stack, "head": matrix(vocabulary, width)}


@bench.reference(tolerance=rounded_products)
@torch.enable_grad()
def reference(stream, labels, weights, head, heads):
    # In float64, what all blocks keep is several times what they keep in an implementation: more than a GPU may have
    # left.
    weights, head = leaves_of(weights, head)
    return step(stream, labels, weights, head, heads, run_block=recomputed if stream.is_cuda else block)


@bench.cost
def cost(blocks, width, batch, length, vocabulary):
    # A multiply-add for each weight and token forward, and two backward; but nobody asks for the gradient of what goes
    # into the first product. Attention, not causal, has two products forward and four backward. What is computed again
    # is no work that must be done.
    tokens, parameters = batch * length, blocks * 12 * width * width + vocabulary * width
    return Cost(
        bytes_read=4 * (tokens * width + parameters) + 8 * tokens,
        bytes_written=4 * (parameters + tokens),
        flops=6 * tokens * (parameters - width * width) + 12 * blocks * tokens * length * width,
        precision="bf16",
        tokens=tokens,
    )


def block(stream, weights, heads):
    """Attention and a feed-forward part of four times the width, each added to the stream."""
    qkv, out, up, down = weights
    batch, length, width = stream.shape
    parts = functional.linear(functional.layer_norm(stream, (width,)), qkv).chunk(3, -1)
    query, key, value = (one.view(batch, length, heads, -1).transpose(1, 2) for one in parts)
    mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, length, width)
    stream = stream + functional.linear(mixed, out)
    wide = functional.linear(functional.layer_norm(stream, (width,)), up)
    return stream + functional.linear(functional.gelu(wide), down)


def recomputed(stream, weights, heads, **how):
    """A block of which only `stream` is kept; `how` goes to `checkpoint`."""
    return checkpoint(block, stream, weights, heads, use_reentrant=False, preserve_rng_state=False, **how)


def step(stream, labels, weights, head, heads, run_block):
    """The loss of each token, and the gradients of their mean by all weights."""
    for one in weights:
        stream = run_block(stream, one, heads)
    logits = functional.linear(functional.layer_norm(stream, stream.shape[-1:]), head)
    losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    found = torch.autograd.grad(losses.mean(), [*(matrix for one in weights for matrix in one), head])
    by_block = [list(found[first : first + 4]) for first in range(0, len(found) - 1, 4)]
    return {"losses": losses.detach(), "weights": by_block, "head": found[-1]}


def leaves_of(weights, head):
    """The weights as what gradients are taken by; their memory stays the harness's."""
    return [[one.detach().requires_grad_() for one in each] for each in weights], head.detach().requires_grad_()


class Step:
    """The step in mixed precision, on a GPU as a graph; `run_block` decides what of a block is kept."""

    def prepare(self, stream, labels, weights, head, every, heads):
        self.weights, self.head = leaves_of(weights, head)
        self.every, self.heads = every, heads
        self.graph = None
        self.make_ready(stream)

    def make_ready(self, stream):
        """Make what a variant needs besides, before the step is captured."""

    def run(self, stream, labels):
        if not stream.is_cuda:
            return self.compute(stream, labels)
        # In the first call, which is not timed: what a graph works in is memory of the step, not of `prepare`.
        self.graph = self.graph or captured(self.compute, stream, labels)
        return self.graph.replay()

    def compute(self, stream, labels):
        with torch.autocast(stream.device.type, torch.bfloat16):
            return step(stream, labels, self.weights, self.head, self.heads, self.run_block)

    def run_block(self, stream, weights, heads):
        return block(stream, weights, heads)


# A block of which each is computed again; a last one that is not; all odd. A stream of a few elements has none that
# stand for the others, and the rounding of one is the error of all.
bench.awkward(
    {"blocks": 1, "every": 1, "width": 34, "heads": 1, "batch": 1, "length": 29, "vocabulary": 31},
    {"blocks": 3, "every": 2, "width": 42, "heads": 3, "batch": 5, "length": 13, "vocabulary": 67},
    {"blocks": 5, "every": 7, "width": 66, "heads": 3, "batch": 2, "length": 17, "vocabulary": 37},
)
bench.accept("cost.flops", because="on a GPU the reference computes each block again, so that it need not keep it")
# Beside 2.4 GB of gradients and 0.7 GB for the logits: 4 of 36 bytes, with one whole block, are (3.1 + 1.9) / 17.6;
# 22 of 36 bytes are (3.1 + 8.9) / 17.6. A tenth is for what the allocator keeps besides.
cuda.reach(of="memory:keep_all", at_most=0.32, implementation="full")
cuda.reach(of="memory:keep_all", at_most=0.75, implementation="selective")
# A forward pass is a third of a step's operations; what is not a product takes less than half of its time.
cuda.reach(of="time:keep_all", at_most=1.33, implementation="full")
cuda.reach(of="time:keep_all", at_most=1.16, implementation="selective")


@both.baseline(kind="reasonable")
class KeepAll(Step):
    pass


@both.variant(
    adds="recomputation",
    why="what autograd kept of one block in each so many is computed again, and of the others stays",
)
class EveryKth(Step):
    def compute(self, stream, labels):
        self.number = 0
        return super().compute(stream, labels)

    def run_block(self, stream, weights, heads):
        self.number += 1
        return (block if self.number % self.every else recomputed)(stream, weights, heads)


def keep_products(context, operation, *arguments, **named):
    """Keep what takes long to compute, attention and products; but not the one that narrows, a block's last.

    Of that one's result the block's backward pass needs nothing.
    """
    narrows = operation in PRODUCTS and arguments[1].shape[0] > arguments[1].shape[1]
    kept = (operation in PRODUCTS and not narrows) or operation in ATTENTION
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


aten = torch.ops.aten
PRODUCTS = (aten.mm.default,)
ATTENTION = (
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
)


@both.variant(
    adds="selective recomputation",
    why="products and attention stay; norms, activations and copies in bfloat16 are quickly computed again",
)
class Selective(Step):
    def run_block(self, stream, weights, heads):
        return recomputed(
            stream, weights, heads, context_fn=partial(create_selective_checkpoint_contexts, keep_products)
        )


@both.variant(
    builds_on="every_kth",
    adds="every block",
    why="of every block only its input stays, and one block at a time has everything, while its gradients are computed",
)
class Full(Step):
    def run_block(self, stream, weights, heads):
        return recomputed(stream, weights, heads)


@cuda.variant(
    requires=("package:triton", "compiler"),
    builds_on="full",
    adds="compilation",
    why="norms, activations, copies to bfloat16 and sums are one kernel between two products: fewer bytes, the first "
    "time and again",
)
class FullCompiled(Full):
    def make_ready(self, stream):
        self.block = torch.compile(block, fullgraph=True, dynamic=False)
        # Compiled here, forward and backward: all blocks are alike.
        with torch.autocast(stream.device.type, torch.bfloat16):
            out = self.run_block(stream.detach().requires_grad_(), self.weights[0], self.heads)
            torch.autograd.grad(out.sum(), self.weights[0])

    def run_block(self, stream, weights, heads):
        return checkpoint(self.block, stream, weights, heads, use_reentrant=False, preserve_rng_state=False)


@cuda.variant(
    builds_on="full",
    adds="offloading",
    why="the inputs of the blocks wait in pinned memory of the host; a stream of its own copies them out while the "
    "next blocks are computed, and back while the block above is",
)
class Offloaded(Full):
    def make_ready(self, stream):
        self.host = [torch.empty(stream.shape, pin_memory=True) for _ in self.weights]
        self.device, self.copies = stream.device, torch.cuda.Stream()

    def compute(self, stream, labels):
        self.gone, self.back = 0, {}
        self.leaving: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()
        return super().compute(stream, labels)

    def run_block(self, stream, weights, heads):
        # Of a block that is computed again, the hooks see the input alone.
        with torch.autograd.graph.saved_tensors_hooks(self.send, self.take):
            return super().run_block(stream, weights, heads)

    def copy(self, target, source):
        """Copy on the stream of copies, behind the kernels that are queued; return the event of its end."""
        self.copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copies):
            target.copy_(source, non_blocking=True)
            return self.copies.record_event()

    def send(self, stream):
        """Start to copy a block's input to the host; return the number under which it is found again."""
        if not stream.numel():  # torch's checkpoints keep it beside the input, so that autograd has something
            return stream
        # The memory of a stream is used again only after its copy.
        self.leaving.append((stream.detach(), self.copy(self.host[self.gone], stream.detach())))
        if len(self.leaving) > LEAVING:
            torch.cuda.current_stream().wait_event(self.leaving.popleft()[1])
        self.gone += 1
        return self.gone - 1

    def take(self, number):
        """The input of a block, once it is back. That of the block below it, which is wanted next, starts to come."""
        if isinstance(number, torch.Tensor):
            return number
        while self.leaving:
            torch.cuda.current_stream().wait_event(self.leaving.popleft()[1])
        for wanted in (number, number - 1):
            if wanted >= 0 and wanted not in self.back:
                stream = torch.empty_like(self.host[wanted], device=self.device)
                self.back[wanted] = stream, self.copy(stream, self.host[wanted])
        stream, arrived = self.back.pop(number)
        torch.cuda.current_stream().wait_event(arrived)
        return stream
