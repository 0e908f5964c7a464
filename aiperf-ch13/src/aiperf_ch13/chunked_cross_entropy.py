"""Chunked cross-entropy: of the logits of a large vocabulary, only a few tokens' need exist at a time.

Workload   The loss of each token, and the gradients of the mean loss by the hidden states and by the weight of the
           vocabulary's head. States and weight are bfloat16, the softmax is float32.
Baseline   The logits of all tokens, then the loss: with float32 copies, logarithms and gradients of them, at the peak
           10 bytes for each token and word.
Variants   `recomputed`: a chunk of tokens at a time through head and loss, of which only the states are kept; the
           product with the head is computed again in the backward pass.  `at_once`: the gradient of a chunk's logits
           overwrites them while they are there, so nothing is computed again.
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

bench = Benchmark(goal="memory", clock="wall")

PART = 1024  # tokens that the reference has in work
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


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class AllLogits(Step):
    pass


@bench.variant(
    device=("cpu", "cuda"),
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


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="recomputed",
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
            slope = torch.mm(some, weight.t()).float()
            place, height = wanted[:, None], slope.logsumexp(-1, keepdim=True)
            torch.sub(height[:, 0], slope.gather(1, place)[:, 0], out=losses)
            slope.sub_(height).exp_()
            slope.scatter_add_(1, place, slope.new_full(place.shape, -1.0))
            narrow = slope.div_(len(states)).bfloat16()
            torch.mm(narrow, weight, out=by_states)
            total.add_(torch.mm(narrow.t(), some))
        return {"losses": self.losses, "states": self.by_states, "weight": self.by_weight.copy_(total)}
