"""Precision by the token: four bits are enough while the model is sure, and a doubt costs a second look.

Question    How much of the gain of 4-bit weights is left when the whole weights decode each doubtful token again?
Numbers     40 given tokens of one text, four layers of an 8B model and a head: 1.0e9 weights, read in each step. 2.0 GB
            in bfloat16 are 0.43 ms at the rate of a read; 0.53 GB in four bits with scales 0.11 ms. 39 kernels in a
            graph a step. A fifth of the tokens is hard, in a row; the others have a planted winner.
Prediction  With h = 0.2 hard tokens and p = 0.26 of the bytes, `verified` takes p + h = 0.46 of the time: 2.2x at most.
            `hysteresis` leaves out p for all hard tokens but the first: 0.8 p + h = 0.41, 2.4x at most. 39 launches of
            2 to 4 us a step are as long as the packed weights, so that p is 0.4, and 1.6 to 1.8x are left.
Limits      h + p = 1: beyond 74 % of hard tokens `verified` loses. Both copies of the weights must have room. In a
            batch, one row that doubts decides for all. `lost` judges the choices of tokens, not the logits.
"""

import math
from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction, graphs, lossy
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source, triton_ahead, triton_source
from aiperf_core.models import ModelConfig, Transformer, config, planted, rms_norm, rotate

EPSILON = 1e-5  # of the norms of aiperf_core.models
bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1)
both = bench.on(("cpu", "cuda"))
host_code = host_source("dynamic_precision_decode.c")

PRECISION = 4  # bits of a packed weight
GROUP, LANES = 128, 16  # columns with a scale, and the words that they are in, as in the files of kernels
ROWS, THREADS = 16, 256  # of a block of the packed product
BLOCK = {"attended": 32, "gated": 512, "two_best": 1024}  # elements that a program has at a time
WARPS = 8  # of the kernels with few programs
# By how much the best logit must lead. An easy token's leads by about 12; random logits of unit spread are closer.
MARGIN = 4.0
SLACK = 0.05  # by which a chosen token may score less than the best
AGREEMENT = 0.995
SMOKE = ModelConfig(layers=2, width=48, heads=3, kv_heads=1, hidden=67, vocabulary=211)
# 78 MB of float32 without the embedding, more than a processor's share of the last cache.
WIDE = ModelConfig(layers=2, width=1024, heads=16, kv_heads=4, hidden=2048, vocabulary=2048)

device_code = cuda_source("dynamic_precision_decode.cu")
MEMORY = "*bf16:16"
kernels = triton_source(
    "dynamic_precision_decode_triton.py",
    triton_ahead(
        "attended",
        signature=dict.fromkeys(("split_ptr", "keys_ptr", "values_ptr", "out_ptr"), MEMORY)
        | dict.fromkeys(("cosine_ptr", "sine_ptr"), "*fp32:16")
        | {"place": "i32", "room": "i32", "heads": "i32:16", "scale": "fp32"},
        constants={"GROUP": 4, "ROWS": 4, "HALF": 64, "PADDED": 64, "BLOCK": BLOCK["attended"]},
        num_warps=WARPS,
    ),
    triton_ahead(
        "normed",
        signature=dict.fromkeys(("x_ptr", "weight_ptr", "out_ptr"), MEMORY) | {"count": "i32:16", "epsilon": "fp32"},
        constants={"PADDED": 4096},
        num_warps=WARPS,
    ),
    triton_ahead(
        "gated",
        signature={"halves_ptr": MEMORY, "out_ptr": MEMORY, "count": "i32:16"},
        constants={"BLOCK": BLOCK["gated"]},
    ),
    triton_ahead(
        "two_best",
        signature={"values_ptr": MEMORY, "best_ptr": "*fp32:16", "count": "i32:16"},
        constants={"BLOCK": BLOCK["two_best"]},
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


def decoding(steps, bits, precision, sizes):
    """The cost of steps that each read all weights, of which one has `precision` bits, and attend to all before."""
    model = model_of(sizes)
    weights = model.parameters - model.vocabulary * model.width
    return Cost(
        bytes_read=steps * (weights * precision / 8 + 8),
        bytes_written=bits // 8 * steps * model.vocabulary,
        flops=model.flops(steps, attended=steps * (steps + 1) // 2, heads_of=steps),
        precision="bf16" if bits == 16 else "fp32",
        tokens=steps,
    )


@bench.cost
def cost(steps, bits, **sizes):
    return decoding(steps, bits, PRECISION, sizes)


def cost_of_whole(steps, bits, **sizes):
    return decoding(steps, bits, bits, sizes)


@bench.metric
def lost(output, reference):
    """The share of tokens whose choice the whole weights score less than their best by more than the slack."""
    chosen = reference.gather(-1, output.argmax(-1, keepdim=True))[..., 0]
    return float((reference.max(-1).values - chosen > SLACK).double().mean())


# A single token; none easy, and all; widths that are no multiple of a group.
bench.accept("cost.repeated_reads", because="a step reads one form of the weights; the packed one is the least")
bench.awkward({"steps": 1}, {"easy": 0, "steps": 3}, {"easy": 1, "width": 72, "hidden": 65})
bench.accept("cost.bytes_read", because="the least is weights of four bits, which all tokens but the hard ones need")
bench.reach(of="speedup", at_least=1.6, implementation="hysteresis")
bench.reach(of="speedup", at_least=1.3, device="cpu", implementation="hysteresis")


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
        for place, of_words in enumerate(places(weight.is_cuda)):
            self.codes |= codes[..., of_words.to(codes.device)] << PRECISION * place
        self.kernel: Any = (device_code.kernel if weight.is_cuda else host_code.function)("product")
        if weight.is_cuda:
            self.grid = min(-(-rows // ROWS), grid_that_fills(device_code.kernel("product"), THREADS))
        if not weight.is_cuda and weight.dtype != torch.float32:
            raise SkipError("the product in C is of float32; give bits=32")

    def __call__(self, x, stream=None):
        """The product with x [1, columns], added to a stream [1, rows] if there is one: [1, rows]."""
        x = functional.pad(x, (0, self.padding)) if self.padding else x.contiguous()
        rows = len(self.codes)
        if x.is_cuda:
            x, stream = x.bfloat16(), None if stream is None else stream.bfloat16()
            y = x.new_empty(1, rows)
            self.kernel(self.codes, self.scales, x, stream, y, rows, self.groups, grid=self.grid, block=THREADS)
            return y
        y = x.new_empty(1, rows)
        self.kernel(self.codes, self.scales, x, x.new_empty(self.groups), y, rows, self.groups)
        return y if stream is None else stream + y


def places(on_gpu):
    """The columns of a group in each place of its words, [8, LANES]: neighbours are in one word, or in one place."""
    place, word = torch.arange(8)[:, None], torch.arange(LANES)
    return 8 * word + 2 * (place % 4) + place // 4 if on_gpu else LANES * place + word


class Whole:
    """A matrix as it is."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x, stream=None):
        return functional.linear(x, self.weight) if stream is None else torch.addmm(stream, x, self.weight.t())


class InTorch:
    """What a step does between products, by operations of torch."""

    def __init__(self, sizes, turns):
        self.sizes, self.turns = sizes, turns

    def attended(self, split, keys, values, place):
        """What all heads see of the tokens up to this one, [1, width]; its key and value go into the cache."""
        sizes = self.sizes
        query, key, value = split.view(-1, 1, sizes.head_width).split((sizes.heads, sizes.kv_heads, sizes.kv_heads))
        turns, shared = (self.turns[0][place], self.turns[1][place]), sizes.heads != sizes.kv_heads
        keys[:, place : place + 1], values[:, place : place + 1] = rotate(key, turns), value
        keys, values, query = keys[None, :, : place + 1], values[None, :, : place + 1], rotate(query, turns)[None]
        return functional.scaled_dot_product_attention(query, keys, values, enable_gqa=shared).reshape(1, -1)

    def normed(self, x, weight):
        return rms_norm(x, weight)

    def gated(self, halves):
        gate, up = halves.chunk(2, -1)
        return functional.silu(gate) * up

    def lead(self, logits):
        """By how much the best is above the second."""
        best, second = logits.topk(2).values.unbind()
        return best - second


class InTriton(InTorch):
    """The same, each as a kernel."""

    def attended(self, split, keys, values, place):
        sizes, half = self.sizes, self.sizes.head_width // 2
        group, out = sizes.heads // sizes.kv_heads, split.new_empty(1, sizes.width)
        scale = math.log2(math.e) / math.sqrt(sizes.head_width)
        kernels.kernel("attended")[(sizes.kv_heads,)](
            split, keys, values, *(one[place] for one in self.turns), out, place, keys.shape[1], sizes.heads, scale,
            GROUP=group, ROWS=padded(group), HALF=half, PADDED=padded(half), BLOCK=BLOCK["attended"], num_warps=WARPS,
        )  # fmt: skip
        return out

    def normed(self, x, weight):
        out, count = torch.empty_like(x), x.numel()
        kernels.kernel("normed")[(1,)](x, weight, out, count, EPSILON, PADDED=padded(count), num_warps=WARPS)
        return out

    def gated(self, halves):
        count = halves.shape[1] // 2
        out = halves.new_empty(1, count)
        kernels.kernel("gated")[(-(-count // BLOCK["gated"]),)](halves, out, count, BLOCK=BLOCK["gated"])
        return out

    def lead(self, logits):
        best, count = self.two_best(logits, BLOCK["two_best"])
        (best, second), _ = self.two_best(best, padded(count))
        return best - second

    def two_best(self, values, block):
        """The two best values of each block, and their number."""
        blocks = -(-values.numel() // block)
        best = torch.empty(2 * blocks, dtype=torch.float32, device=values.device)
        kernels.kernel("two_best")[(blocks,)](values, best, values.numel(), BLOCK=block)
        return best, 2 * blocks


def padded(count):
    return 1 << (count - 1).bit_length()


@both.baseline(kind="reasonable", cost=cost_of_whole)
class AllWhole:
    precisions: tuple[Any, ...] = (Whole,)

    def prepare(self, tokens, weights, steps, **sizes):
        model = model_of(sizes)
        self.model: Any = Transformer(model, weights)
        names, layers = ("qkv", "out", "gate_up", "down"), range(model.layers)
        self.matrices = [
            {"head": of(weights["head"])}
            | {(layer, name): of(weights[f"layers.{layer}.{name}"]) for layer in layers for name in names}
            for of in self.precisions
        ]
        self.cache = weights["head"].new_zeros(model.layers, 2, model.kv_heads, steps, model.head_width)
        self.between = (InTriton if tokens.is_cuda else InTorch)(model, self.model.turns(0, steps))
        self.out = weights["head"].new_empty(steps, model.vocabulary)
        self.steps = [[self.ready(tokens, place, one) for place in range(steps)] for one in self.matrices]

    def ready(self, tokens, place, matrices):
        """A step with these matrices, as a call without arguments."""

        def step():
            return self.step(tokens, place, matrices)

        return graphs.captured(step).replay if tokens.is_cuda else step

    @torch.inference_mode()
    def run(self, tokens):
        (only,) = self.steps
        for step in only:
            step()
        return self.out

    @torch.inference_mode()
    def step(self, tokens, place, matrices):
        """Write the logits after the token of a place; return by how much the best leads."""
        between, stream = self.between, functional.embedding(tokens[place : place + 1], self.model.embedding)
        for number, layer in enumerate(self.model.layers):
            split, (keys, values) = (
                matrices[number, "qkv"](between.normed(stream, layer.attention_norm)),
                self.cache[number],
            )
            stream = matrices[number, "out"](between.attended(split, keys, values, place), stream)
            halves = matrices[number, "gate_up"](between.normed(stream, layer.mlp_norm))
            stream = matrices[number, "down"](between.gated(halves), stream)
        self.out[place] = matrices["head"](between.normed(stream, self.model.norm))[0]
        return between.lead(self.out[place])


@both.variant(
    adds="four bits",
    why="a token reads a quarter of the bytes (an eighth of float32), and hard ones are often wrong",
    lossy=lossy("rel_l2", at_most=0.2),
    predict="at most 3.8x: 16 bits for 4.25",
)
class AllPacked(AllWhole):
    precisions = (Packed,)


@both.variant(
    builds_on="all_packed",
    adds="verification",
    why="a doubt is decoded again by the whole weights, whose keys, values and logits replace the first",
    lossy=lossy("lost", at_most=1 - AGREEMENT),
    predict="0.5 to 0.8x: p / (p + h) = 0.57, and 0.67 where launches double p",
    teaches="exactness has a price: a doubt pays both passes, and is found by a copy of its lead to the host",
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
    predict="at most 1.3x: p + h = 0.46 for 0.8 p + h = 0.41, were the launches free",
)
class Hysteresis(Verified):
    @torch.inference_mode()
    def run(self, tokens):
        doubts = False
        for packed, whole in zip(*self.steps, strict=True):
            if doubts or float(packed()) < MARGIN:
                doubts = float(whole()) < MARGIN
        return self.out
