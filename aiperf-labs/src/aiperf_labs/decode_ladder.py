"""A ladder of decoding: what is left when nothing stands between the products of one token and those of the next.

Question    Where does the time of a decoded token go, and how much is left when the host launches nothing?
Numbers     On a GPU, 64 tokens of 8 texts by a model of 1.1e9 weights, bfloat16: 2.1 GB a step, 0.49 ms at 4.3 TB/s.
            The step of the ladder is 29 kernels a layer, 18 of them rotations: 470 a step, of which 65 are products.
            On a CPU, 16 tokens by 0.5e6 weights: 2 MB a step, 0.1 ms at 20 GB/s, and 64 operations of torch.
Prediction  A torch operation takes the host some 15 us, so 470 take 7 ms, 14x the weights; `rotary_table` saves 4 of
            them, `fused_residuals` 32. `whole_graph`: 405 kernels of 1.08 us beside the weights are 0.93 ms a token,
            and 5.5 ms of a call are the prompts' products: 0.49 of the bound. `fused_step` on a CPU: 64 operations of
            5 us are saved, 4x.
Limits      Large batches and models, whose products take longer than what stands between them. `fused_step` reads all
            weights for each text of a batch. A graph has one number of steps, and stops at no end of a text.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.graphs import graphed
from aiperf_core.kernels import host_source
from aiperf_core.models import Cache, ModelConfig, Transformer, config, planted, rms_norm, rotate

# The operations on a processor are so short that two threads would mostly wait for each other.
bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
both, cuda, cpu = bench.on(("cpu", "cuda")), bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("decode_ladder.c")

CACHED_BYTES = 128 << 20  # weights below this may stay in a cache from step to step
SMOKE = ModelConfig(layers=2, width=40, heads=4, kv_heads=2, hidden=51, vocabulary=97)


def rounding(bits):
    """The tolerance of the last logits; tokens are the same at any precision."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="the stream is rounded to bfloat16 twice in each of up to 16 layers")


@bench.workload(
    smoke={**SMOKE.sizes, "batch": 3, "prompt": 5, "steps": 4, "dtype": "fp32"},
    cpu={**config("tiny").sizes, "batch": 1, "prompt": 16, "steps": 16, "dtype": "fp32"},
    cuda={**config("1b").sizes, "batch": 8, "prompt": 256, "steps": 64, "dtype": "bf16"},
)
def inputs(vocabulary, batch, prompt, device, generator):
    return {"texts": torch.randint(vocabulary, (batch, prompt), device=device, generator=generator)}


@bench.static
def parameters(dtype, device, generator, **sizes):
    return {"weights": planted(model_of(sizes), device, dtype, generator)}


def model_of(sizes):
    """The model's sizes, of all that a workload has."""
    return ModelConfig(**{name: sizes[name] for name in SMOKE.sizes})


@bench.reference(tolerance=rounding)
def reference(texts, weights, steps, **sizes):
    model = Transformer(model_of(sizes), weights)
    tokens = [texts[:, -1]]
    for _ in range(steps):
        tokens.append(model.successor[tokens[-1]])
    # All tokens at once attend to those before them, as one by one.
    whole = torch.cat((texts, torch.stack(tokens[1:], 1)), 1)
    return {"tokens": whole[:, -steps:], "logits": model.logits(model.states(whole)[:, -1])}


@bench.cost
def cost(batch, prompt, steps, bits, **sizes):
    model, room = model_of(sizes), prompt + steps
    size = bits // 8 * (model.parameters - model.vocabulary * model.width)
    # Each token waits for the one before, so weights that no cache holds are read for each.
    passes = 1 if size <= CACHED_BYTES else 1 + steps
    return Cost(
        bytes_read=passes * size + 8 * batch * prompt,
        bytes_written=8 * batch * steps + bits // 8 * batch * model.vocabulary,
        flops=model.flops(batch * room, attended=batch * room * (room + 1) // 2, heads_of=batch * (1 + steps)),
        precision="bf16" if bits == 16 else "fp32",
        tokens=batch * steps,
    )


# A text of one token, and a single step; heads that share nothing; a width that is no multiple of a vector.
bench.awkward(
    {"batch": 1, "prompt": 1, "steps": 1},
    {"layers": 1, "heads": 2, "kv_heads": 2, "width": 36, "hidden": 1, "steps": 7},
)
# 65 reads of the weights are 32 ms. Beside them are 5.5 ms of the prompts' products and 64 * 405 kernels of 1.08 us:
# 0.49 of the bound, less what attention and norms take beyond a kernel's least time.
bench.reach(of="SOL", at_least=0.4, implementation="whole_graph")
# 64 operations of 5 us a step beside the 0.1 ms that its weights take are 4x; the prompt's pass takes from it.
bench.reach(of="speedup", at_least=2.0, implementation="fused_step", device="cpu")


@both.baseline(kind="reasonable")
class Eager:
    def prepare(self, texts, weights, batch, prompt, steps, **sizes):
        self.sizes, head = model_of(sizes), weights["head"]
        self.model: Any = Transformer(self.sizes, weights)
        self.cache: Any = Cache(self.sizes, batch, prompt + steps, head.device, head.dtype)
        self.tokens = texts.new_empty(batch, steps)
        self.ready(texts, weights)

    def ready(self, texts, weights):
        """Called once, when model and cache are there."""

    @torch.inference_mode()
    def run(self, texts):
        return self.decoded(texts)

    def decoded(self, texts):
        self.cache.length = 0
        logits = self.model.logits(self.model.states(texts, self.cache)[:, -1])
        for place in range(self.tokens.shape[1]):
            self.tokens[:, place] = logits.argmax(-1)
            logits = self.step(self.tokens[:, place])
        return {"tokens": self.tokens, "logits": logits}

    def step(self, token):
        """The logits after one more token of each text."""
        return self.model.decode(token, self.cache)


class OwnStep(Eager):
    """A step of which the parts may be changed."""

    table = fused = True

    def ready(self, texts, weights):
        self.turns = self.model.turns(0, self.cache.room)

    def step(self, token):
        model, cache = self.model, self.cache
        place = cache.length
        turns = [one[place : place + 1] for one in self.turns] if self.table else model.turns(place, 1)
        stream = functional.embedding(token, model.embedding)
        for layer in model.layers:
            stream = self.added(stream, self.attended(stream, layer, turns), layer.out)
            gate, up = functional.linear(rms_norm(stream, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            stream = self.added(stream, functional.silu(gate) * up, layer.down)
        cache.length = place + 1
        return model.logits(rms_norm(stream, model.norm))

    def added(self, stream, x, weight):
        """The stream with the product of x and a weight added."""
        if self.fused:
            return stream.addmm_(x, weight.t())
        return stream + functional.linear(x, weight)

    def attended(self, stream, layer, turns):
        """Attention of all heads to earlier tokens, [batch, width]; this one is added to their keys and values."""
        sizes, place = self.sizes, self.cache.length
        split = functional.linear(rms_norm(stream, layer.attention_norm), layer.qkv)
        split = split.view(len(stream), -1, 1, sizes.head_width)
        query, key, value = split.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), 1)
        keys, values = self.cache.keys[layer.number], self.cache.values[layer.number]
        keys[:, :, place : place + 1] = rotate(key, turns)
        values[:, :, place : place + 1] = value
        seen = (keys[:, :, : place + 1], values[:, :, : place + 1])
        mixed = functional.scaled_dot_product_attention(
            rotate(query, turns), *seen, enable_gqa=sizes.heads != sizes.kv_heads
        )
        return mixed.reshape(stream.shape)


@both.variant(
    adds="rotary table",
    why="cosines and sines depend on the place alone, and need no kernels in a step",
    teaches="they are 4 operations of a step, of several hundred: the host saves hardly anything",
)
class RotaryTable(OwnStep):
    fused = False


@both.variant(
    builds_on="rotary_table",
    adds="fused residuals",
    why="the last product of a part adds to the stream, which saves an operation and a pass over it",
    teaches="two operations of thirty a layer: less than the host's time varies between two calls",
)
class FusedResiduals(OwnStep):
    pass


class WithoutTable(OwnStep):
    table = False


cuda.variant(
    graphed("fused_residuals"),
    name="whole_graph",
    builds_on="fused_residuals",
    adds="graph of all steps",
    why="the driver has all kernels of all steps, and asks the host for none of them",
)
cuda.variant(
    graphed(WithoutTable),
    name="without_table",
    adds=("fused residuals", "graph of all steps"),
    why="the whole ladder, less the rotary table",
)
cuda.variant(
    graphed("rotary_table"),
    name="without_residuals",
    adds=("rotary table", "graph of all steps"),
    why="the whole ladder, less the fused residuals",
)


@cpu.variant(
    builds_on="fused_residuals",
    adds="fused step",
    why="a step is one call: nothing is looked up, allocated or written to memory between its products",
)
class FusedStep(OwnStep):
    def ready(self, texts, weights):
        super().ready(texts, weights)
        if weights["head"].dtype != torch.float32:
            raise SkipError("the step in C is of float32; give bits=32")
        names = ("attention_norm", "qkv", "out", "mlp_norm", "gate_up", "down")
        layers = range(self.sizes.layers)
        stacked = [torch.stack([weights[f"layers.{layer}.{name}"] for layer in layers]) for name in names]
        turns = torch.cat(self.turns, -1).contiguous()
        self.weights = [weights["embedding"], *stacked, weights["norm"], weights["head"], turns, self.model.frequencies]
        # The cache of all layers in one piece, which the prompt's pass fills layer by layer.
        both_caches = torch.zeros(2, len(layers), *self.cache.keys[0].shape)
        self.keys, self.values = both_caches
        self.cache = SimpleNamespace(keys=self.keys, values=self.values, length=0, room=self.cache.room)
        self.logits, self.call = (
            weights["head"].new_empty(len(texts), self.sizes.vocabulary),
            host_code.function("decode"),
        )

    def step(self, token):
        sizes, cache = self.sizes, self.cache
        numbers = (sizes.layers, sizes.width, sizes.heads, sizes.kv_heads, sizes.hidden, sizes.vocabulary, cache.room)
        given = (token.contiguous(), *self.weights, self.keys, self.values, self.logits, len(token), *numbers)
        if self.call(*given, cache.length, int(self.table), int(self.fused)):
            raise SkipError("the step in C has room for 4096 numbers of a row, and as many places")
        cache.length += 1
        return self.logits


@cpu.variant(
    name="without_table", adds=("fused residuals", "fused step"), why="the whole ladder, less the rotary table"
)
class WithoutTableInC(FusedStep):
    table = False


@cpu.variant(
    name="without_residuals", adds=("rotary table", "fused step"), why="the whole ladder, less the fused residuals"
)
class WithoutResidualsInC(FusedStep):
    fused = False
