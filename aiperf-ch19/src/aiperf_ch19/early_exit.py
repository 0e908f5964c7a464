"""Early exit: a token that is decided at an early layer need not go through all others.

Question    If a model is sure of three tokens of four after a quarter of its layers, what does a step save?
Numbers     8 steps of 1024 texts by a model of 16 layers, 1.1e9 weights, bfloat16: 2.1 TFLOP a step, 2.7 ms at 790
            TFLOP/s. The tokens are given, so that all go on from the same ones. The head is asked after 4 layers; a
            quarter of the rows goes on, through 12. The keys and values of skipped layers are made from the state at
            the exit, as later tokens attend to them. Left are 7 of 16 layers, 1.25 heads of 1 and the fill-in: 1.08
            TFLOP. On a CPU 0.81 of 1.56 GFLOP.
Prediction  `compacted`: at most 2.1 / 1.08 = 1.97x, less what products of 256 rows lose, which read each weight for a
            quarter of the work. `fused_fill`: 14 kernels in place of 156, and one product of the state in place of 12.
Limits      A batch whose weights take longer to read than to multiply, below some 170 rows, as in most decoding
            (`--size few`). A model whose head does not understand early layers. It gives up 2 % of the choices at most
            (`lost`), and needs a fixed number of rows that go on, or the host waits for their count.
"""

from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction, lossy
from aiperf_core.graphs import graphed
from aiperf_core.models import ModelConfig, Transformer, config, planted, rms_norm, rotate

bench = Benchmark(goal="latency", clock="wall", cache="warm")
cpu, cuda = bench.on("cpu"), bench.on("cuda")

SLACK = 0.1  # by which a chosen token may score less than the best
AGREEMENT = 0.98
CACHED_BYTES = 128 << 20  # weights below this may stay in a cache from step to step
SMOKE = ModelConfig(layers=3, width=48, heads=3, kv_heads=1, hidden=67, vocabulary=211)
SMALL = ModelConfig(layers=8, width=256, heads=4, kv_heads=2, hidden=688, vocabulary=1024)


def rounding(bits):
    """The tolerance of logits."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="the stream is rounded to bfloat16 twice in each of up to 16 layers")


@bench.workload(
    smoke={**SMOKE.sizes, "exit_after": 1, "batch": 11, "steps": 3, "easy": 0.7, "dtype": "fp32"},
    cpu={**SMALL.sizes, "exit_after": 2, "batch": 128, "steps": 2, "easy": 0.75, "dtype": "fp32"},
    cuda={**config("1b").sizes, "exit_after": 4, "batch": 1024, "steps": 8, "easy": 0.75, "dtype": "bf16"},
    # The weights are the bound, and fewer rows gain nothing.
    few={**config("1b").sizes, "exit_after": 4, "batch": 32, "steps": 8, "easy": 0.75, "dtype": "bf16"},
)
def inputs(vocabulary, batch, steps, easy, device, generator):
    draw = {"device": device, "generator": generator}
    first_hard, sure = easy_words(vocabulary, easy), easy_rows(batch, easy)
    tokens = torch.empty(steps, batch, dtype=torch.int64, device=device)
    for step in tokens:
        rows = torch.randperm(batch, **draw)
        step[rows[:sure]] = torch.randint(max(1, first_hard), (sure,), **draw)
        step[rows[sure:]] = torch.randint(min(first_hard, vocabulary - 1), vocabulary, (batch - sure,), **draw)
    return {"tokens": tokens}


def easy_words(vocabulary, easy):
    """The words below this one are easy."""
    return round(easy * vocabulary)


def easy_rows(batch, easy):
    """How many rows of a batch have easy words, in every step."""
    return round(easy * batch)


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
    model = Transformer(model_of(sizes), weights)
    return model(tokens.t()).transpose(0, 1)  # a step attends to those before it, as in decoding


@bench.cost
def cost(batch, steps, easy, exit_after, bits, **sizes):
    # Easy rows need the first layers and the keys and values of the others, which are the least that an exit leaves.
    model, sure = model_of(sizes), easy_rows(batch, easy)
    deep = model.layers - exit_after
    layers = batch * exit_after + (batch - sure) * deep
    filled = sure * deep * 4 * model.width * model.kv_width
    head = 2 * model.width * model.vocabulary * batch
    # Weights that a step reads: all layers for a row that is not sure, or keys and values alone. No cache holds many.
    whole = (
        model.layer_parameters * model.layers
        if sure < batch
        else (model.layer_parameters * exit_after + 2 * model.width * model.kv_width * deep)
    )
    size = bits // 8 * (whole + model.width * model.vocabulary)
    passes = 1 if size <= CACHED_BYTES else steps
    return Cost(
        bytes_read=passes * size + 8 * batch * steps,
        bytes_written=bits // 8 * batch * steps * model.vocabulary,
        flops=steps * (2 * layers * model.layer_parameters + filled + head),
        precision="bf16" if bits == 16 else "fp32",
        tokens=batch * steps,
    )


@bench.metric
def lost(output, reference):
    """The share of tokens whose choice the whole model scores less than its best by more than the slack."""
    chosen = reference.gather(-1, output.argmax(-1, keepdim=True))[..., 0]
    return float((reference.max(-1).values - chosen > SLACK).double().mean())


# One row; none easy, and all; an exit after all layers but one.
bench.awkward(
    {"batch": 1, "steps": 1},
    {"batch": 7, "easy": 0},
    {"batch": 5, "easy": 1, "steps": 2},
    {"layers": 5, "exit_after": 4, "batch": 13},
)
bench.accept("cost.flops", because="the reference takes all tokens through all layers, which an exit does not")
# 1.97x by operations, and a fifth for smaller products and gathered rows.
cuda.reach(of="speedup", at_least=1.6, implementation="fused_fill")
# 1.56 / 0.81 = 1.9x by operations, and a third for what is between the products.
cpu.reach(of="speedup", at_least=1.3, implementation="fused_fill")


class FullDepth:
    def prepare(self, tokens, weights, batch, steps, vocabulary, **sizes):
        self.model: Any = Transformer(model_of({**sizes, "vocabulary": vocabulary}), weights)
        head = weights["head"]
        self.cache: Any = Places(self.model.model, batch, steps, head)
        self.out = head.new_empty(steps, batch, vocabulary)

    @torch.inference_mode()
    def run(self, tokens):
        self.cache.length = 0
        for token, out in zip(tokens, self.out, strict=True):
            out.copy_(self.model.decode(token, self.cache))
        return self.out


cpu.baseline(FullDepth, kind="reasonable")
cuda.baseline(graphed(FullDepth), name="full_depth", kind="reasonable")


class Places:
    """Keys and values of earlier tokens, as `aiperf_core.models.Cache` has them, with all layers in one tensor."""

    def __init__(self, model, batch, room, like):
        shape = (model.layers, batch, model.kv_heads, room, model.head_width)
        self.keys, self.values = like.new_zeros(2, *shape)
        self.length, self.room = 0, room


class OfRows:
    """Copies of the keys and values of some rows in one layer, which has no others to look for."""

    def __init__(self, cache, layer, rows):
        places = slice(cache.length + 1)
        self.keys = {layer: cache.keys[layer, rows, :, places]}
        self.values = {layer: cache.values[layer, rows, :, places]}
        self.length = cache.length


def exiting(**declared):
    """Declare a lossy implementation on both devices, on a GPU as a graph of all steps."""
    declared["lossy"] = lossy("lost", at_most=1 - AGREEMENT)

    def declare(code):
        cpu.variant(code, **declared)
        cuda.variant(graphed(code), **declared)
        return code

    return declare


@exiting(
    name="compacted",
    adds=("early exit", "compaction"),
    why="most rows leave after the first layers, and the others are multiplied as a smaller batch",
)
class Compacted(FullDepth):
    def prepare(self, tokens, weights, batch, steps, vocabulary, **sizes):
        super().prepare(tokens, weights, batch, steps, vocabulary, **sizes)
        exit_after = sizes["exit_after"]
        self.first, self.deep = self.model.layers[:exit_after], self.model.layers[exit_after:]
        self.leaving = easy_rows(batch, sizes["easy"])
        self.ready()

    def ready(self):
        """Called once, when the layers are there."""

    @torch.inference_mode()
    def run(self, tokens):
        for step, (token, out) in enumerate(zip(tokens, self.out, strict=True)):
            self.cache.length = step
            turns = self.model.turns(step, 1)
            stream = functional.embedding(token, self.model.embedding)[:, None]
            for layer in self.first:
                stream = layer(stream, turns, None, self.cache)
            out.copy_(self.logits(stream))
            best, second = out.topk(2).values.unbind(-1)
            leaving, others = (best - second).argsort(descending=True).tensor_split((self.leaving,))
            if len(leaving):
                self.fill(stream[leaving, 0], leaving, turns)
            if len(others):
                self.go_on(stream[others], others, turns, out)
        return self.out

    def logits(self, stream):
        """The head's, of the stream of one token a row."""
        return self.model.logits(rms_norm(stream[:, 0], self.model.norm))

    def go_on(self, stream, rows, turns, out):
        """Take these rows through the other layers, and write their logits."""
        for layer in self.deep:
            own = OfRows(self.cache, layer.number, rows)
            stream = layer(stream, turns, None, own)
            self.cache.keys[layer.number, rows, :, own.length] = own.keys[layer.number][:, :, -1]
            self.cache.values[layer.number, rows, :, own.length] = own.values[layer.number][:, :, -1]
        out[rows] = self.logits(stream)

    def fill(self, states, rows, turns):
        """Write the keys and values that these rows have in the layers that they skip."""
        width, place = states.shape[-1], self.cache.length
        for layer in self.deep:
            x = rms_norm(states, layer.attention_norm)
            key, value = functional.linear(x, layer.qkv[width:]).view(len(rows), 2, -1, self.head_width).unbind(1)
            self.cache.keys[layer.number, rows, :, place] = rotate(key, turns)
            self.cache.values[layer.number, rows, :, place] = value

    @property
    def head_width(self):
        return self.model.model.head_width


EPSILON = 1e-5  # of the norms of `aiperf_core.models`


@exiting(
    name="fused_fill",
    builds_on="compacted",
    adds="fused fill-in",
    why="the keys and values of all skipped layers come of one product with one state, whose norms are in the weights",
    teaches="the fill-in is a small part of the operations, and its kernels a small part of a graph",
)
class FusedFill(Compacted):
    def ready(self):
        width = self.model.model.width
        parts = [layer.qkv[width:] * layer.attention_norm for layer in self.deep]
        self.projection = torch.cat(parts)

    def fill(self, states, rows, turns):
        x = functional.rms_norm(states, states.shape[-1:], None, EPSILON)
        both = functional.linear(x, self.projection).view(len(rows), len(self.deep), 2, -1, self.head_width)
        key, value = both.transpose(0, 1).unbind(2)  # a layer, a row, a head
        skipped, place = len(self.first), self.cache.length
        self.cache.keys[skipped:, rows, :, place] = rotate(key, turns)
        self.cache.values[skipped:, rows, :, place] = value
