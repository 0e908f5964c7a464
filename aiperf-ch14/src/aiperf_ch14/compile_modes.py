"""torch.compile by mode: a mode removes kernels, Python, or nothing, and each takes its time to compile.

Question    Which part of a model's forward pass does each mode of torch.compile remove, at which batch?
Numbers     A decoder-only transformer in bfloat16, 4 layers of the size "1b", one token on a GPU: 0.5 GB of weights,
            0.12 ms at the rate of reads, in some 200 launches from Python. The baseline has the same precision and
            torch's fused attention. Compiling is in the time of preparation, from an empty cache.
Prediction  Fusion removes kernels between products, `reduce_overhead` Python and launches: most of the time at batch 1.
            Timing other tiles for products (`max_autotune`) gains nothing at batch 1, where each reads the same
            weights.
Limits      From some thousand tokens on (`--size prefill`, `--size large`) products take longer than everything around
            them, and all modes agree with the baseline. Each new shape is compiled again.
"""

import os
import shutil

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.models import ModelConfig, Transformer, config, planted

bench = Benchmark(goal="speed", clock="wall", cache="warm", prepare_timeout_s=600)
# Triton's launchers are C.
cuda, cpu = bench.on("cuda", requires=("sm_80", "package:triton", "compiler")), bench.on("cpu")

SMOKE = ModelConfig(layers=1, width=20, heads=2, kv_heads=1, hidden=37, vocabulary=53)
# The first call compiles; under a CUDA graph the second records it, and the third is a replay.
WARMING_CALLS = 3
COMPILERS = ("g++", "clang++", "c++")
# The stream is rounded to bfloat16 after each part of a layer, by about 2^-9 / sqrt(3) in the root mean square, and
# what the parts add is rounded several times on its way; 32 parts add up to sqrt(32) times that.
rounded_in_every_layer = Tolerance(1.5e-2, reason="the stream is rounded to bfloat16 twice in each of up to 16 layers")


@bench.workload(
    smoke={**SMOKE.sizes, "batch": 3, "length": 7},
    cpu={**config("tiny").sizes, "batch": 1, "length": 16},
    # A quarter of the layers: each is like the next, and all of them take minutes to compile in every mode and round.
    cuda={**config("1b").sizes, "layers": 4, "batch": 1, "length": 1},
    decode={**config("1b").sizes, "batch": 1, "length": 1},
    prefill={**config("1b").sizes, "batch": 8, "length": 512},
    large={**config("1b").sizes, "batch": 16, "length": 2048},
)
def inputs(vocabulary, batch, length, device, generator):
    return {"tokens": torch.randint(vocabulary, (batch, length), device=device, generator=generator)}


@bench.static
def parameters(device, generator, **sizes):
    return {"weights": planted(model_of(sizes), device, torch.bfloat16, generator)}


@bench.reference(tolerance=rounded_in_every_layer)
def reference(tokens, weights, **sizes):
    return forward(Transformer(model_of(sizes), weights), tokens)


@bench.cost
def cost(batch, length, **sizes):
    model, tokens = model_of(sizes), batch * length
    # Of the embedding only the tokens' rows are read. Attention is causal: a token sees itself and those before it.
    unread = max(0, model.vocabulary - tokens) * model.width
    return Cost(
        bytes_read=2 * (model.parameters - unread) + 8 * tokens,
        bytes_written=2 * (tokens * model.width + batch * model.vocabulary),
        flops=model.flops(tokens, attended=batch * length * (length + 1) // 2, heads_of=batch),
        precision="bf16",
        tokens=tokens,
    )


def model_of(sizes):
    """The model's sizes, of all that a workload has."""
    return ModelConfig(**{name: sizes[name] for name in SMOKE.sizes})


def forward(model, tokens):
    """The states of all tokens, and the logits of each text's last."""
    states = model.states(tokens)
    return {"states": states, "logits": model.logits(states[:, -1])}


# Each mode compiles for half a minute at each size: the package's tests have them.
bench.awkward()
cuda.reach(of="speedup", at_least=1.8, implementation="reduce_overhead")
cuda.reach(of="speedup", at_least=1.0, implementation="max_autotune", size="large")


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class Eager:
    def prepare(self, weights, **sizes):
        self.model = Transformer(model_of(sizes), weights)

    def run(self, tokens):
        return forward(self.model, tokens)


class Compiled:
    """The forward pass in one of the compiler's modes; to compile it is to prepare it."""

    mode = "default"

    def prepare(self, tokens, weights, **sizes):
        # Seconds, in which nothing else needs it.
        from torch._inductor.cpu_vec_isa import pick_vec_isa
        from torch._inductor.utils import fresh_cache

        if tokens.device.type == "cpu":
            if not any(map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))):
                raise SkipError(f"needs a C++ compiler (looked for $CXX, {', '.join(COMPILERS)})")
            pick_vec_isa()  # compiles and runs a test for each instruction set: once a machine, and kept
        self.model = Transformer(model_of(sizes), weights)
        self.forward = torch.compile(forward, mode=self.mode, fullgraph=True, dynamic=False)
        # What an earlier run has compiled would make this one's preparation look short.
        with fresh_cache():
            for _ in range(WARMING_CALLS):
                self.forward(self.model, tokens)

    def run(self, tokens):
        return self.forward(self.model, tokens)


FUSED = {"adds": "fusion", "why": "what stands between products is one loop or kernel, which reads and writes once"}


@cpu.variant(**FUSED)
@cuda.variant(**FUSED)
class Default(Compiled):
    pass


@cuda.variant(
    builds_on="default",
    adds="graph",
    why="all kernels of a call are launched as one graph, and the host is not in between",
)
class ReduceOverhead(Compiled):
    mode = "reduce-overhead"


TIMED = {
    "builds_on": "default",
    "adds": "autotuned products",
    "why": "products that the compiler wrote are timed against the library's for these shapes, and may take in what "
    "follows them",
    "teaches": "at batch 1 a product is the reading of its weights: every tile that is tried reads the same bytes",
}


@cpu.variant(**TIMED)
@cuda.variant(**TIMED)
class MaxAutotuneNoGraphs(Compiled):
    mode = "max-autotune-no-cudagraphs"


@cuda.variant(
    builds_on="reduce_overhead",
    adds="autotuned products",
    why="the products that were chosen by time, launched as one graph",
    teaches=TIMED["teaches"],
)
class MaxAutotune(Compiled):
    mode = "max-autotune"
