"""Chunked cross-entropy: only one chunk's logits of a large vocabulary exist at a time.

Question    What memory do the head and the loss of a language model need, beside their inputs and gradients?
Numbers     The loss of each of 8192 tokens, and the gradients of the mean loss by states and head: width 4096,
            vocabulary 128256, bfloat16. A logit takes 12 bytes at the peak, in the backward pass: its logarithm of the
            forward pass, the loss's gradient by it and the gradient by the float32 logit, 4 each: 12.6 GB. The
            gradients themselves take 1.1 GB; the products are 6 * 8192 * 4096 * 128256 operations.
Prediction  A chunk of 1024 tokens has an eighth of the logits: 1.6 GB. Computing its logits again is a third more
            operations. One kernel that overwrites a chunk's 2-byte logits leaves 0.26 GB beside the gradients.
Limits      Below width / 6 tokens, 683 here, the head's gradient is larger than all logits. A chunk of c tokens reads
            and writes that gradient for c / 2 operations a byte: below some 400 tokens memory is the bound. Each chunk
            rounds the gradient's sum to bfloat16.
"""

import math
from functools import partial

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.kernels import triton_source

bench = Benchmark(goal="memory", clock="wall", prepare_timeout_s=600)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")

BLOCK, WARPS = 8192, 16  # columns of a row that a program has in registers
kernels = triton_source("chunked_cross_entropy_triton.py", archs=("sm_80", "sm_90"), launched_by=("fused_in_place",))
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
    return {"weight": torch.randn(vocabulary, width, device=device, generator=generator).bfloat16() / math.sqrt(width)}


@bench.reference(tolerance=summed_in_bf16)
def reference(states, labels, weight, chunk):
    # In chunks, too: in float64, the logits of all tokens may be more than a GPU has left.
    wide = torch.promote_types(weight.dtype, torch.float32)
    losses, by_states, by_weight = [], [], torch.zeros_like(weight, dtype=wide)
    for some, wanted in zip(states.split(chunk), labels.split(chunk), strict=True):
        logits = (some @ weight.t()).to(wide)
        losses.append(functional.cross_entropy(logits, wanted, reduction="none"))
        slope = logits.softmax(-1).sub_(functional.one_hot(wanted, len(weight))).div_(len(states)).to(weight.dtype)
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
# A chunk's logits and the gradients, of 12 bytes for each logit: (0.26 + 1.05 + 0.07) / 12.6 = 0.11.
cuda.reach(of="memory:all_logits", at_most=0.12)
# The same products, and 12 bytes of traffic for each logit beside them, not 42.
cuda.reach(of="time:all_logits", at_most=1.0, implementation="fused_in_place")


def losses_of(states, labels, weight):
    return functional.cross_entropy(functional.linear(states, weight).float(), labels, reduction="none")


def step(losses_of_all, states, labels, weight):
    """Losses by a function of states, labels and weight, and gradients by autograd."""
    states, weight = states.detach().requires_grad_(), weight.detach().requires_grad_()
    losses = losses_of_all(states, labels, weight)
    by_states, by_weight = torch.autograd.grad(losses.mean(), [states, weight])
    return {"losses": losses.detach(), "states": by_states, "weight": by_weight}


@both.baseline(kind="reasonable")
def all_logits(states, labels, weight):
    return step(losses_of, states, labels, weight)


@both.variant(
    adds="chunks",
    why="only one chunk's logits exist, in the forward pass and, computed again, in the backward pass",
    predict="3.5 to 4.5x: 12.6 GB of logits, or three gradients of the head while autograd adds one to another",
)
def recomputed(states, labels, weight, chunk):
    def losses_of_all(states, labels, weight):
        of_chunk = partial(checkpoint, losses_of, use_reentrant=False, preserve_rng_state=False)
        parts = zip(states.split(chunk), labels.split(chunk), strict=True)
        return torch.cat([of_chunk(some, wanted, weight) for some, wanted in parts])

    return step(losses_of_all, states, labels, weight)


@both.variant(
    builds_on="recomputed",
    adds="gradients at once",
    why="the gradients of a chunk are computed while its logits are there, so no logit is computed again",
    predict="1.2 to 1.5x: one gradient of the head, not three, beside a chunk's logits of 10 bytes",
)
class AtOnce:
    def prepare(self, states, weight):
        self.losses = torch.empty(len(states), device=states.device)
        self.by_states, self.by_weight = torch.empty_like(states), torch.empty_like(weight)

    def run(self, states, labels, weight, chunk):
        outputs = (self.losses.split(chunk), self.by_states.split(chunk))
        parts = zip(states.split(chunk), labels.split(chunk), *outputs, strict=True)
        for number, part in enumerate(parts):
            self.add(weight, 1 / len(states), min(number, 1), *part)
        return {"losses": self.losses, "states": self.by_states, "weight": self.by_weight}

    def add(self, weight, share, beta, some, wanted, losses, by_states):
        """Write a chunk's losses and gradient by states; add its part to beta times the gradient by the weight."""
        slope = self.slope(torch.mm(some, weight.t()), wanted, losses, share)
        torch.mm(slope, weight, out=by_states)
        self.by_weight.addmm_(slope.t(), some, beta=beta)

    def slope(self, logits, wanted, losses, share):
        """Write a chunk's losses; return the gradient of the mean loss by its logits, in bfloat16."""
        slope = logits.float()
        place, height = wanted[:, None], slope.logsumexp(-1, keepdim=True)
        torch.sub(height, slope.gather(1, place), out=losses[:, None])
        slope.sub_(height).exp_()
        slope.scatter_add_(1, place, slope.new_full(place.shape, -1.0))
        return slope.mul_(share).bfloat16()


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="at_once",
    adds="fused kernel in place",
    why="one kernel turns a chunk's logits into their gradient where they lie, without float32 copies in memory",
    predict="1.6 to 1.9x: a chunk's logits of 2 bytes, not 10, beside 1.1 GB of gradients",
)
class FusedInPlace(AtOnce):
    def prepare(self, states, weight):
        super().prepare(states, weight)
        self.kernel = kernels.kernel("loss_and_slope")

    def slope(self, logits, wanted, losses, share):
        self.kernel[(len(logits),)](logits, wanted, losses, logits.shape[1], share, BLOCK=BLOCK, num_warps=WARPS)
        return logits


@cuda.yardstick(
    requires=("package:triton", "compiler"), why="torch.compile of head and loss, which fuses what follows the products"
)
class Compiled:
    def prepare(self, states, labels, weight):
        self.losses_of_all = torch.compile(losses_of, fullgraph=True, dynamic=False)
        step(self.losses_of_all, states, labels, weight)

    def run(self, states, labels, weight):
        return step(self.losses_of_all, states, labels, weight)
