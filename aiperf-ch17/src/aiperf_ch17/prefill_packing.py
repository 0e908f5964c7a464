"""Prefill of prompts of many lengths: padded, in buckets of like length, or packed without any padding.

Question    How much of a batch of prompts is padding, and what does a layer need to know to do without?
Numbers     The states of all tokens of 32 prompts, of four layers of width 4096 in bfloat16. Lengths are quantiles of a
            lognormal distribution, from 72 to 3474, in random order: 23,400 tokens, 42 TFLOP. Padded to the longest
            they are 32 * 3474 = 111,168.
Prediction  The padded batch computes 4.9 times the operations. Sorted, in four groups padded to the longest of each:
            1.8 times, so 2.8x for `buckets` and 4.9x for `packed`. `packed` calls attention for each prompt and layer,
            128 times; `varlen` four times. On a CPU (16 prompts, 735 tokens of 2,736) it is 2.6x and 3.9x.
Limits      Prompts of one length have no padding (`--set spread=0`). Attention is 3 % of the operations here, so
            `varlen` gains little until prompts are so short that their launches last longer than their products. A
            batch whose prompts fill the machine one by one needs no packing: padding can be left out by a loop.
"""

import inspect
import math
from statistics import NormalDist
from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.models import ModelConfig, Transformer, config, planted, rms_norm, rotate

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1)
both, cpu = bench.on(("cpu", "cuda")), bench.on("cpu")
cuda = bench.on("cuda", requires="sm_80")


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, and the states are sums of what the layers add"
    return Tolerance(1e-2, reason=why)


def lengths(prompts, median, spread, longest):
    """The lengths of the prompts, in order: quantiles of a lognormal distribution, from 1 to `longest`."""
    places = [(number + 0.5) / prompts for number in range(prompts)]
    drawn = [round(median * math.exp(spread * NormalDist().inv_cdf(place))) for place in places]
    return [min(max(one, 1), longest) for one in drawn]


@bench.workload(
    smoke={
        **ModelConfig(layers=2, width=24, heads=3, kv_heads=1, hidden=17, vocabulary=67).sizes,
        "dtype": "fp32",
        "prompts": 7,
        "median": 5,
        "spread": 0.9,
        "longest": 23,
    },
    cpu={**config("tiny").sizes, "dtype": "fp32", "prompts": 16, "median": 32, "spread": 0.9, "longest": 512},
    cuda={**config("8b4").sizes, "dtype": "bf16", "prompts": 32, "median": 500, "spread": 0.9, "longest": 8192},
)
def inputs(prompts, median, spread, longest, vocabulary, device, generator):
    length = torch.tensor(lengths(prompts, median, spread, longest), device=device)
    order = torch.randperm(prompts, device=device, generator=generator)
    # Behind a prompt are other tokens, on which nothing may depend.
    room = int(length.max())
    tokens = torch.randint(vocabulary, (prompts, room), device=device, generator=generator)
    return {"tokens": tokens, "length": length[order]}


@bench.static
def parameters(layers, width, heads, kv_heads, hidden, vocabulary, dtype, device, generator):
    model = ModelConfig(
        layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
    )
    return {"weights": planted(model, device, dtype, generator)}


@bench.reference(tolerance=tolerance)
def reference(tokens, length, weights, layers, width, heads, kv_heads, hidden, vocabulary):
    sizes = ModelConfig(
        layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
    )
    model = Transformer(sizes, weights)
    rows = zip(tokens, length.tolist(), strict=True)
    return torch.cat([model.states(row[None, :count])[0] for row, count in rows])


@bench.cost
def cost(layers, width, heads, kv_heads, hidden, vocabulary, bits, prompts, median, spread, longest):
    model = ModelConfig(
        layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
    )
    counts = lengths(prompts, median, spread, longest)
    tokens, attended = sum(counts), sum(one * (one + 1) / 2 for one in counts)
    size = bits // 8
    # The weights of the layers once, and of the embedding no more rows than there are tokens.
    read = size * (layers * model.layer_parameters + min(tokens, vocabulary) * width) + 8 * (tokens + prompts)
    return Cost(
        bytes_read=read,
        bytes_written=size * tokens * width,
        flops=model.flops(tokens, attended, 0),
        precision="bf16" if bits == 16 else "fp32",
        tokens=tokens,
    )


# A single token; one prompt; prompts of one token; half precision.
bench.awkward(
    {"prompts": 1, "median": 1, "longest": 1},
    {"prompts": 1, "median": 11},
    {"prompts": 5, "median": 1, "spread": 0.0},
    {"prompts": 13, "median": 9, "longest": 31, "dtype": "bf16"},
)
bench.accept("cost.flops", because="on a GPU the reference computes the scores of masked tokens too")
bench.accept("cost.bytes_read", because="the head, rows of unused words, and tokens behind a prompt are not read")
cuda.reach(of="MM:bf16", at_least=0.60, implementation="varlen")
cpu.reach(of="time:padded", at_most=0.5, implementation="packed")


class Prefill:
    """The states of a batch of prompts; how, is the implementation's."""

    def prepare(self, weights, layers, width, heads, kv_heads, hidden, vocabulary, bits):
        sizes = ModelConfig(
            layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
        )
        self.model = Transformer(sizes, weights)


@both.baseline(kind="reasonable")
class Padded(Prefill):
    @torch.inference_mode()
    def run(self, tokens, length):
        counts = length.tolist()
        states = self.model.states(tokens[:, : max(counts)])
        return torch.cat([row[:count] for row, count in zip(states, counts, strict=True)])


@both.variant(adds="length buckets", why="a group of prompts of like length is padded to its own longest prompt")
class Buckets(Prefill):
    GROUPS = 4

    @torch.inference_mode()
    def run(self, tokens, length):
        counts = length.tolist()
        order = sorted(range(len(counts)), key=counts.__getitem__)
        rows = [tokens[:0]] * len(counts)
        size = -(-len(order) // self.GROUPS)
        for first in range(0, len(order), size):
            group = order[first : first + size]
            states = self.model.states(tokens[group, : counts[group[-1]]])
            for number, one in zip(group, states, strict=True):
                rows[number] = one[: counts[number]]
        return torch.cat(rows)


@both.variant(adds="packing", why="all that treats tokens alone gets the tokens of all prompts, and no padding")
class Packed(Prefill):
    @torch.inference_mode()
    def run(self, tokens, length):
        counts, model = length.tolist(), self.model
        sizes, total = model.model, sum(counts)
        self.begin(counts, tokens.device)
        # Every prompt begins at place 0.
        cosine, sine = zip(*self.places(counts), strict=True)
        turns = torch.cat(cosine)[:, None], torch.cat(sine)[:, None]
        stream = functional.embedding(
            torch.cat([row[:count] for row, count in zip(tokens, counts, strict=True)]), model.embedding
        )
        layer: Any
        for layer in model.layers:
            x = rms_norm(stream, layer.attention_norm)
            split = functional.linear(x, layer.qkv).view(total, -1, sizes.head_width)
            query, key, value = split.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), 1)
            # `rotate` wants the angles of each token beside its heads.
            mixed = self.attend(rotate(query, turns), rotate(key, turns), value)
            stream = stream + functional.linear(mixed.reshape(total, -1), layer.out)
            stream = stream + layer.feed_forward(rms_norm(stream, layer.mlp_norm))
        return rms_norm(stream, model.norm)

    def places(self, counts):
        """Cosine and sine of the places of each prompt."""
        cosine, sine = self.model.turns(0, max(counts))
        return [(cosine[:count], sine[:count]) for count in counts]

    def begin(self, counts, device):
        """Called once for a batch."""
        self.counts = counts

    def attend(self, query, key, value):
        """Causal attention within each prompt; all are [tokens, heads, head_width]."""
        parts = zip(*(one.transpose(0, 1)[None].split(self.counts, 2) for one in (query, key, value)), strict=True)
        shared = query.shape[1] != key.shape[1]
        mixed = [
            functional.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1, enable_gqa=shared)
            for query, key, value in parts
        ]
        return torch.cat(mixed, 2)[0].transpose(0, 1)


@cuda.variant(
    builds_on="packed",
    adds="varlen attention",
    why="one kernel attends within all prompts: short ones run beside long ones, and nothing is launched for each",
)
class Varlen(Packed):
    def prepare(self, weights, layers, width, heads, kv_heads, hidden, vocabulary, bits):
        super().prepare(weights, layers, width, heads, kv_heads, hidden, vocabulary, bits)
        if bits != 16 or (width // heads) % 8:
            raise SkipError("flash attention takes bfloat16 and heads of a multiple of 8 elements")
        try:
            from torch.nn.attention.varlen import varlen_attn
        except ImportError:
            raise SkipError("this version of torch has no torch.nn.attention.varlen") from None
        # The names of these options differ between versions of torch.
        known = inspect.signature(varlen_attn).parameters
        self.options = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
        if "enable_gqa" in known:
            self.options["enable_gqa"] = heads != kv_heads
        self.attention = varlen_attn

    def begin(self, counts, device):
        super().begin(counts, device)
        ends = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        self.ends = (ends.pin_memory() if device.type == "cuda" else ends).to(device, non_blocking=True)

    def attend(self, query, key, value):
        longest = max(self.counts)
        return self.attention(query, key, value.contiguous(), self.ends, self.ends, longest, longest, **self.options)
