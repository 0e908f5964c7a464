"""Attention to less than was asked for: each issue beside honest code that looks like it.

Workload   Attention of every position to every other, without a mask, in float32.
Baseline   softmax(q k^T) v, the scores in memory.
Variants   First the code that commits an issue, then its honest look-alike.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")

# What is left of the work by those who do less of it.
PART = 8


@bench.workload(
    smoke={"heads": 2, "length": 64, "dim": 16},
    cpu={"heads": 4, "length": 256, "dim": 32},
    cuda={"heads": 32, "length": 2048, "dim": 64},
)
def inputs(heads, length, dim, device, generator):
    return {name: torch.randn(heads, length, dim, device=device, generator=generator) for name in "qkv"}


@bench.reference(tolerance=fp32_reduction)
def reference(q, k, v):
    return attention(q, k, v)


@bench.cost
def cost(heads, length, dim):
    elements = heads * length * dim
    return Cost(bytes_read=12 * elements, bytes_written=4 * elements, flops=4 * elements * length)


@bench.baseline(device=both, kind="naive")
def scores_in_memory(q, k, v):
    return attention(q, k, v)


# --- shorter sequences


@bench.variant(
    device=both, why="the first positions attend to each other; the others are left out and come out as zeros"
)
def first_positions(q, k, v):
    length = q.shape[1] // PART
    y = attention(q[:, :length], k[:, :length], v[:, :length])
    return torch.nn.functional.pad(y, (0, 0, 0, q.shape[1] - length))


@bench.variant(device=both, why="honest: a part of the keys at a time, and what has been summed so far is scaled anew")
def all_keys_in_parts(q, k, v):
    total, norm, most = torch.zeros_like(q), torch.zeros_like(q[..., :1]), torch.full_like(q[..., :1], -torch.inf)
    for keys, values in zip(k.chunk(4, 1), v.chunk(4, 1), strict=True):
        scores = scaled(q) @ keys.transpose(1, 2)
        now = torch.maximum(most, scores.amax(-1, keepdim=True))
        weights, before = torch.exp(scores - now), torch.exp(most - now)
        total, norm, most = total * before + weights @ values, norm * before + weights.sum(-1, keepdim=True), now
    return total / norm


# --- elements are skipped in silence


@bench.variant(device=both, why="one key in eight, in the hope that softmax hides it")
def some_keys(q, k, v):
    return attention(q, k[:, ::PART], v[:, ::PART])


@bench.variant(device=both, why="honest: all keys, taken in another order, which a sum does not see")
def keys_reversed(q, k, v):
    return attention(q, k.flip(1), v.flip(1))


# --- another mask


@bench.variant(device=both, why="positions attend to their neighbourhood only")
def neighbours(q, k, v):
    heads, length, dim = q.shape
    near = (heads * PART, length // PART, dim)
    return attention(q.reshape(near), k.reshape(near), v.reshape(near)).view(heads, length, dim)


@bench.variant(device=both, why="honest: a mask that hides nothing")
class MaskOfZeros:
    def prepare(self, q):
        self.mask = torch.zeros(q.shape[1], q.shape[1], device=q.device)

    def run(self, q, k, v):
        return torch.softmax(scaled(q) @ k.transpose(1, 2) + self.mask, -1) @ v


def attention(q, k, v):
    return torch.softmax(scaled(q) @ k.transpose(1, 2), -1) @ v


def scaled(q):
    return q * q.shape[-1] ** -0.5
