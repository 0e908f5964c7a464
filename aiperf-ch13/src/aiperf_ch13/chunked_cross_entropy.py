"""Chunked cross-entropy: of the logits of a large vocabulary, only a few tokens' need exist at a time.

Workload   The loss of each token, and the gradients of the mean loss by the hidden states and by the weight of the
           vocabulary's head. States and weight are bfloat16, the softmax is float32.
Baseline   The logits of all tokens, then the loss: with float32 copies, logarithms and gradients of them, at the peak
           10 bytes for each token and word.
Variants   `recomputed`: a chunk of tokens at a time through head and loss, of which only the states are kept; the
           product with the head is computed again in the backward pass.  `at_once`: the gradient of a chunk's logits
           overwrites them while they are there, so nothing is computed again.  `compiled` (cuda): what turns logits
           into gradients is compiled.  `fused_in_place` (cuda): it is one Triton kernel, which overwrites the logits,
           and the weight's gradient is added up in bfloat16 where it ends.
Breaks     Small vocabularies, whose logits are no larger than the states. Chunks too small for the machine make it
           slower, and more than some ten of them lose accuracy in `recomputed`, where autograd adds up the weight's
           gradients in bfloat16; `at_once` has a float32 sum of its own, which is as large as the weight twice.
"""

import importlib
import math

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.kernels import triton_ahead, triton_source

bench = Benchmark(goal="memory", clock="wall", prepare_timeout_s=600)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")

PART = 1024  # tokens that the reference has in work
BLOCK, WARPS = 8192, 16  # columns of a row that a program has in registers
kernels = triton_source(
    "chunked_cross_entropy_triton.py",
    triton_ahead(
        "loss_and_slope",
        signature={
            "logits_ptr": "*bf16:16",
            "labels_ptr": "*i64:16",
            "losses_ptr": "*fp32",
            "columns": "i32:16",
            "share": "fp32",
        },
        constants={"BLOCK": BLOCK},
        num_warps=WARPS,
    ),
    archs=("sm_80", "sm_90"),
)
# Autograd adds the gradients of a bfloat16 weight in bfloat16, so each chunk rounds the sum once more.
summed_in_bf16 = Tolerance(1e-2, reason="bfloat16 operands, and sums of up to ten chunks rounded to bfloat16 each time")


@bench.workload(
    smoke={"tokens": 37, "chunk": 8, "width": 43, "vocabulary": 211},
    cpu={"tokens": 512, "chunk": 64, "width": 128, "vocabulary": 8192},
    cuda={"tokens": 8192, "chunk": 1024, "width": 4096, "vocabulary": 128256},
    small={"tokens": 8192, "chunk": 1024, "width": 2048, "vocabulary": 32000},
)
def inputs(tokens, width, vocabulary, device, generator):
    return {
        "states": torch.randn(tokens, width, device=device, generator=generator).bfloat16(),
        "labels": torch.randint(vocabulary, (tokens,), device=device, generator=generator),
    }


@bench.static
def parameters(width, vocabulary, device, generator):
    return {
        "weight": torch.randn(vocabulary, width, device=device, generator=generator).div_(math.sqrt(width)).bfloat16()
    }


@bench.reference(tolerance=summed_in_bf16)
def reference(states, labels, weight):
    # In float64, the logits of all tokens may be more than a GPU has left. What is narrower than float32 is widened.
    wide = torch.promote_types(weight.dtype, torch.float32)
    losses, by_states, by_weight = [], [], torch.zeros_like(weight, dtype=wide)
    for some, wanted in zip(states.split(PART), labels.split(PART), strict=True):
        place = wanted[:, None]
        logs = torch.log_softmax((some @ weight.t()).to(wide), -1)
        losses.append(-logs.gather(1, place)[:, 0])
        slope = logs.exp_().scatter_add_(1, place, logs.new_full(place.shape, -1.0)).div_(len(states)).to(weight.dtype)
        by_states.append(slope @ weight)
        by_weight += slope.t() @ some
    return {"losses": torch.cat(losses), "states": torch.cat(by_states), "weight": by_weight.to(weight.dtype)}


@bench.cost
def cost(tokens, width, vocabulary):
    # Three products: the logits, and the gradients by states and by weight.
    return Cost(
        bytes_read=2 * (tokens + vocabulary) * width + 8 * tokens,
        bytes_written=2 * (tokens + vocabulary) * width + 4 * tokens,
        flops=6 * tokens * width * vocabulary,
        precision="bf16",
        tokens=tokens,
    )


# A single token, fewer than a chunk has; a last chunk that is not full; a vocabulary beside which all else is small.
bench.awkward(
    {"tokens": 1, "chunk": 3, "width": 31, "vocabulary": 17},
    {"tokens": 61, "chunk": 8, "width": 67, "vocabulary": 31},
    {"tokens": 128, "chunk": 32, "width": 16, "vocabulary": 1009},
)
cuda.reach(of="memory:all_logits", at_most=0.15)
cuda.reach(of="time:all_logits", at_most=1.05, implementation="fused_in_place")


def losses_of(states, labels, weight):
    """The loss of each token, in float32."""
    return functional.cross_entropy(functional.linear(states, weight).float(), labels, reduction="none")


class Step:
    """Losses by `losses`, and gradients by autograd."""

    def prepare(self, weight, chunk):
        self.weight, self.chunk = weight.detach().requires_grad_(), chunk

    def run(self, states, labels):
        states = states.detach().requires_grad_()
        losses = self.losses(states, labels)
        by_states, by_weight = torch.autograd.grad(losses.mean(), [states, self.weight])
        return {"losses": losses.detach(), "states": by_states, "weight": by_weight}

    def losses(self, states, labels):
        return losses_of(states, labels, self.weight)


@both.baseline(kind="reasonable")
class AllLogits(Step):
    pass


@both.variant(
    adds="chunks",
    why="only one chunk's logits exist, in the forward pass and, computed again, in the backward pass",
)
class Recomputed(Step):
    def prepare(self, weight, chunk):
        super().prepare(weight, chunk)
        # The first checkpoint of a process imports it: memory that is the process's, and none of a step's.
        importlib.import_module("torch._dynamo")

    def losses(self, states, labels):
        parts = zip(states.split(self.chunk), labels.split(self.chunk), strict=True)
        return torch.cat([self.of_chunk(*part) for part in parts])

    def of_chunk(self, states, labels):
        """The losses of some tokens, of which the states are kept."""
        return checkpoint(losses_of, states, labels, self.weight, use_reentrant=False, preserve_rng_state=False)


@both.variant(
    builds_on="recomputed",
    adds="gradients at once",
    why="the gradients of a chunk are computed while its logits are there, and overwrite them",
)
class AtOnce:
    def prepare(self, states, weight, chunk):
        self.losses = torch.empty(len(states), device=states.device)
        self.by_states, self.by_weight = torch.empty_like(states), torch.empty_like(weight)

    @torch.no_grad()
    def run(self, states, labels, weight, chunk):
        total = torch.zeros_like(weight, dtype=torch.float32)
        outputs = (self.losses.split(chunk), self.by_states.split(chunk))
        for some, wanted, losses, by_states in zip(states.split(chunk), labels.split(chunk), *outputs, strict=True):
            narrow = self.slope(torch.mm(some, weight.t()), wanted, losses, 1 / len(states))
            torch.mm(narrow, weight, out=by_states)
            total.add_(torch.mm(narrow.t(), some))
        return {"losses": self.losses, "states": self.by_states, "weight": self.by_weight.copy_(total)}

    def slope(self, logits, wanted, losses, share):
        """Write the losses of a chunk; return the gradient of the mean loss by its logits, in bfloat16."""
        return slope_of(logits, wanted, losses, share)


def slope_of(logits, wanted, losses, share):
    """Losses and gradients of a chunk's logits; `share` is a token's in the mean."""
    slope = logits.float()
    place, height = wanted[:, None], slope.logsumexp(-1, keepdim=True)
    torch.sub(height[:, 0], slope.gather(1, place)[:, 0], out=losses)
    slope.sub_(height).exp_()
    slope.scatter_add_(1, place, slope.new_full(place.shape, -1.0))
    return slope.mul_(share).bfloat16()


def fused_slope_of(logits, wanted, share):
    """`slope_of` without memory of its own, for a compiler to fuse: a compared column in place of a scattered one."""
    wide = logits.float()
    height = wide.logsumexp(-1, keepdim=True)
    column = torch.arange(wide.shape[1], device=wide.device)
    losses = height[:, 0] - wide.gather(1, wanted[:, None])[:, 0]
    return losses, (((wide - height).exp() - (column == wanted[:, None]).float()) * share).bfloat16()


@cuda.variant(
    requires=("package:triton", "compiler"),
    builds_on="at_once",
    adds="fusion",
    why="what turns logits into gradients is one or two kernels, without the float32 copies between them",
)
class Compiled(AtOnce):
    def prepare(self, states, weight, chunk):
        super().prepare(states, weight, chunk)
        self.fused = torch.compile(fused_slope_of, fullgraph=True, dynamic=False)
        labels = torch.zeros(len(states), dtype=torch.int64, device=states.device)
        for part in {len(some): some for some in states.split(chunk)}.values():  # a last chunk may be shorter
            self.slope(torch.mm(part, weight.t()), labels[: len(part)], self.losses[: len(part)], 1 / len(states))

    def slope(self, logits, wanted, losses, share):
        found, narrow = self.fused(logits, wanted, share)
        losses.copy_(found)
        return narrow


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="at_once",
    adds="fused kernel in place",
    why="one kernel turns a chunk's logits into their gradient where they lie: no float32 copy of them, nor of the "
    "weight's gradient, which is added up where it ends",
)
class FusedInPlace(AtOnce):
    def prepare(self, states, weight, chunk):
        super().prepare(states, weight, chunk)
        self.kernel = kernels.kernel("loss_and_slope")

    @torch.no_grad()
    def run(self, states, labels, weight, chunk):
        outputs = (self.losses.split(chunk), self.by_states.split(chunk))
        parts = zip(states.split(chunk), labels.split(chunk), *outputs, strict=True)
        for number, (some, wanted, losses, by_states) in enumerate(parts):
            logits = torch.mm(some, weight.t())
            columns = logits.shape[1]
            self.kernel[(len(some),)](logits, wanted, losses, columns, 1 / len(states), BLOCK=BLOCK, num_warps=WARPS)
            torch.mm(logits, weight, out=by_states)
            # A chunk's product is summed in float32, and rounded once where it is added.
            torch.addmm(self.by_weight, logits.t(), some, beta=min(number, 1), out=self.by_weight)
        return {"losses": self.losses, "states": self.by_states, "weight": self.by_weight}
