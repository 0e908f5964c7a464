"""Precision by the token: four bits are enough while the model is sure, and a doubt costs a second look.

Workload   `steps` steps of decoding of one text, from an empty cache. The tokens are given, so that all implementations
           go on from the same ones; the logits after each are the answer. After a share `easy` of the tokens the model
           is sure of the next one, by its planted head; the others come in a row somewhere, and their logits lie close
           together.
Baseline   All tokens with the whole weights, bfloat16 on a GPU, where a step is a CUDA graph, and float32 on a
           processor.
Variants   `verified`: a token goes through weights of four bits; where the best logit leads by less than a margin, it
           goes through the whole ones as well, whose keys, values and logits replace the first.  `hysteresis`: after a
           doubt the next token goes through the whole weights at once, until one is sure.
Quality    `lost` is the share of tokens whose choice scores clearly less than the best one by the whole weights.
Breaks     Both copies of the weights must have room. Many doubts: each costs both passes. Batches, in which one row
           that doubts decides for all. A model whose margins say little about what rounding does.
"""

from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction, graphs, lossy
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source, triton_ahead, triton_source
from aiperf_core.models import ModelConfig, Transformer, config, planted

bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1)
both = bench.on(("cpu", "cuda"))
host_code = host_source("dynamic_precision_decode.c")

EPSILON = 1e-5  # of the norms of `aiperf_core.models`
GROUP, LANES = 64, 8  # columns with a scale, and the words that they are in, as in the files of kernels
ROWS, WORDS = 4, 64  # of a program at a time
# By how much the best logit must lead. An easy token's leads by about 12; random logits of unit spread are closer.
MARGIN = 4.0
SLACK = 0.05  # by which a chosen token may score less than the best
AGREEMENT = 0.995
SMOKE = ModelConfig(layers=2, width=48, heads=3, kv_heads=1, hidden=67, vocabulary=211)
# 78 MB of float32 without the embedding, more than a processor's share of the last cache.
WIDE = ModelConfig(layers=2, width=1024, heads=16, kv_heads=4, hidden=2048, vocabulary=2048)

kernels = triton_source(
    "dynamic_precision_decode_triton.py",
    triton_ahead(
        "product",
        signature={
            "codes_ptr": "*i32:16",
            "scales_ptr": "*fp32:16",
            "x_ptr": "*bf16:16",
            "y_ptr": "*bf16:16",
            "rows": "i32:16",
            "groups": "i32:16",
        },
        constants={"ROWS": ROWS, "WORDS": WORDS},
    ),
    archs=("sm_80", "sm_90"),
)


def rounding(bits):
    """The tolerance of logits."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="the stream is rounded to bfloat16 twice in each of four layers")


@bench.workload(
    smoke={**SMOKE.sizes, "steps": 5, "easy": 0.6, "dtype": "fp32"},
    cpu={**WIDE.sizes, "steps": 10, "easy": 0.8, "dtype": "fp32"},
    cuda={**config("8b4").sizes, "steps": 40, "easy": 0.8, "dtype": "bf16"},
)
def inputs(vocabulary, steps, easy, device, generator):
    draw = {"device": device, "generator": generator}
    first_hard, hard = easy_words(vocabulary, easy), steps - round(easy * steps)
    tokens = torch.randint(max(1, first_hard), (steps,), **draw)
    start = int(torch.randint(steps - hard + 1, (1,), **draw))
    # Hard ones come one after the other, as in a part of a text that is difficult.
    tokens[start : start + hard] = torch.randint(min(first_hard, vocabulary - 1), vocabulary, (hard,), **draw)
    return {"tokens": tokens}


def easy_words(vocabulary, easy):
    """The words below this one are easy."""
    return round(easy * vocabulary)


@bench.static
def parameters(vocabulary, width, easy, dtype, device, generator, **sizes):
    model = model_of({**sizes, "vocabulary": vocabulary, "width": width})
    weights = planted(model, device, dtype, generator)
    hard = weights["successor"][easy_words(vocabulary, easy) :]
    # Logits of unit spread: rows of unit length, at a stream of unit root mean square.
    drawn = torch.randn(len(hard), width, device=device, generator=generator)
    weights["head"][hard] = functional.normalize(drawn, dim=1).to(dtype)
    return {"weights": weights}


def model_of(sizes):
    """The model's sizes, of all that a workload has."""
    return ModelConfig(**{name: sizes[name] for name in SMOKE.sizes})


@bench.reference(tolerance=rounding)
def reference(tokens, weights, **sizes):
    return Transformer(model_of(sizes), weights)(tokens[None])[0]  # a step attends to those before it


@bench.cost
def cost(steps, easy, bits, **sizes):
    # The weights once at four bits: what a cache may keep of them from step to step is not declared.
    model = model_of(sizes)
    weights = model.parameters - model.vocabulary * model.width
    return Cost(
        bytes_read=weights / 2 + 8 * steps,
        bytes_written=bits // 8 * steps * model.vocabulary,
        flops=model.flops(steps, attended=steps * (steps + 1) // 2, heads_of=steps),
        precision="bf16" if bits == 16 else "fp32",
        tokens=steps,
    )


@bench.metric
def lost(output, reference):
    """The share of tokens whose choice the whole weights score less than their best by more than the slack."""
    chosen = reference.gather(-1, output.argmax(-1, keepdim=True))[..., 0]
    return float((reference.max(-1).values - chosen > SLACK).double().mean())


# A single token; none easy, and all; widths that are no multiple of a group.
bench.awkward({"steps": 1}, {"easy": 0, "steps": 3}, {"easy": 1, "width": 72, "hidden": 65})
bench.accept("cost.bytes_read", because="the least is weights of four bits, which all tokens but the hard ones need")
bench.reach(of="speedup", at_least=1.6)
bench.reach(of="speedup", at_least=1.3, device="cpu")


class Packed:
    """A matrix in four bits: the nearest of sixteen multiples of a scale, which is that of the largest in its group."""

    def __init__(self, weight):
        rows, columns = weight.shape
        self.groups = -(-columns // GROUP)
        self.padding = self.groups * GROUP - columns
        parts = functional.pad(weight.float(), (0, self.padding)).view(rows, self.groups, GROUP)
        self.scales = parts.abs().amax(-1).div_(7).clamp_(min=1e-12)
        codes = (parts / self.scales[..., None]).round_().clamp_(-8, 7).add_(8).to(torch.int32)
        self.codes = torch.zeros(rows, self.groups, LANES, dtype=torch.int32, device=weight.device)
        for place, part in enumerate(codes.split(LANES, -1)):
            self.codes |= part << 4 * place
        if weight.is_cuda:
            self.kernel: Any = kernels.kernel("product")
        else:
            self.kernel = host_code.function("product")
            if weight.dtype != torch.float32:
                raise SkipError("the product in C is of float32; give bits=32")

    def __call__(self, x):
        """The product with x [1, columns]: [1, rows]."""
        x = functional.pad(x, (0, self.padding)) if self.padding else x.contiguous()
        y = x.new_empty(1, len(self.codes))
        rows = y.shape[1]
        if x.is_cuda:
            self.kernel[(-(-rows // ROWS),)](self.codes, self.scales, x, y, rows, self.groups, ROWS=ROWS, WORDS=WORDS)
        else:
            self.kernel(self.codes, self.scales, x, x.new_empty(self.groups), y, rows, self.groups)
        return y


class Whole:
    """A matrix as it is."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return functional.linear(x, self.weight)


@both.baseline(kind="reasonable")
class AllWhole:
    precisions: tuple[Any, ...] = (Whole,)

    def prepare(self, tokens, weights, steps, **sizes):
        self.sizes = model_of(sizes)
        self.model: Any = Transformer(self.sizes, weights)
        names = ("qkv", "out", "gate_up", "down")
        layers = range(self.sizes.layers)
        self.matrices = [
            {"head": of(weights["head"])}
            | {(layer, name): of(weights[f"layers.{layer}.{name}"]) for layer in layers for name in names}
            for of in self.precisions
        ]
        shape = (self.sizes.layers, self.sizes.kv_heads, steps, self.sizes.head_width)
        self.keys, self.values = weights["head"].new_zeros(2, *shape)
        self.turns = self.model.turns(0, steps)
        self.out, self.lead = weights["head"].new_empty(steps, sizes["vocabulary"]), torch.zeros(steps)
        self.steps = [[self.ready(tokens, place, one) for place in range(steps)] for one in self.matrices]

    def ready(self, tokens, place, matrices):
        """A step with these matrices, as a call without arguments."""

        def step():
            return self.step(tokens, place, matrices)

        return graphs.captured(step).replay if tokens.is_cuda else step

    @torch.inference_mode()
    def run(self, tokens):
        (whole,) = self.steps
        for step in whole:
            step()
        return self.out

    @torch.inference_mode()
    def step(self, tokens, place, matrices):
        """Write the logits after the token of a place; return by how much the best leads."""
        turns = [one[place : place + 1] for one in self.turns]
        stream = functional.embedding(tokens[place : place + 1], self.model.embedding)
        for number, layer in enumerate(self.model.layers):
            split = matrices[number, "qkv"](self.norm(stream, layer.attention_norm))
            stream = stream + matrices[number, "out"](self.attended(split, number, place, turns))
            gate, up = matrices[number, "gate_up"](self.norm(stream, layer.mlp_norm)).chunk(2, -1)
            stream = stream + matrices[number, "down"](functional.silu(gate) * up)
        logits = matrices["head"](self.norm(stream, self.model.norm))
        self.out[place] = logits[0]
        best, second = logits[0].topk(2).values.unbind()
        return best - second

    def norm(self, x, weight):
        return functional.rms_norm(x, weight.shape, weight, EPSILON)

    def attended(self, split, number, place, turns):
        """What all heads see of earlier tokens, [1, width]; the keys and values of this one are added to them."""
        sizes = self.sizes
        query, key, value = split.view(-1, 1, sizes.head_width).split((sizes.heads, sizes.kv_heads, sizes.kv_heads))
        self.keys[number, :, place : place + 1] = rotated(key, turns)
        self.values[number, :, place : place + 1] = value
        keys, values = (one[None, number, :, : place + 1] for one in (self.keys, self.values))
        shared = sizes.heads != sizes.kv_heads
        query = rotated(query, turns)[None]
        return functional.scaled_dot_product_attention(query, keys, values, enable_gqa=shared).reshape(1, -1)


def rotated(x, turns):
    """Heads, turned as `aiperf_core.models` turns them."""
    cosine, sine = turns
    first, second = x.to(cosine.dtype).chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(x.dtype)


@both.variant(
    adds=("four bits", "verification"),
    why="a sure token reads an eighth or a quarter of the bytes, and only the others read the whole weights too",
    lossy=lossy("lost", at_most=1 - AGREEMENT),
)
class Verified(AllWhole):
    precisions = (Packed, Whole)

    @torch.inference_mode()
    def run(self, tokens):
        for packed, whole in zip(*self.steps, strict=True):
            if float(packed()) < MARGIN:
                whole()
        return self.out


@both.variant(
    builds_on="verified",
    adds="hysteresis",
    why="hard tokens come one after the other: after a doubt the pass that would only raise the next is left out",
    lossy=lossy("lost", at_most=1 - AGREEMENT),
)
class Hysteresis(Verified):
    @torch.inference_mode()
    def run(self, tokens):
        doubts = False
        for packed, whole in zip(*self.steps, strict=True):
            if doubts or float(packed()) < MARGIN:
                doubts = float(whole()) < MARGIN
        return self.out
