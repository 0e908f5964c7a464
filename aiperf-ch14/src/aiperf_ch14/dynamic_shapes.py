"""Shapes that vary: a compiled graph is of one length, of some, or of all, and each graph is compiled once.

Question    How many graphs does torch.compile make for calls of 60 lengths, and what do they cost beside the calls?
Numbers     200 calls of 17 to 2048 tokens, of 60 lengths. Dynamo decides, and its compilations are counted: the graph
            is real, and small. The seconds are a table: 10 s a graph of some layers, and the calls of a model of 8e9
            parameters, 3.7 ms or 33,000 tokens a second. The calls take 2.6 s. Floor: one graph and the calls. A
            seed draws the order.
Prediction  60 graphs are 600 s. Powers of two from 32 to 2048 are 7 graphs, and up to twice the tokens. Dynamo takes a
            length that has changed as a symbol: 2 graphs. A length that is marked is one from the first call on: 1.
Limits      A graph of all lengths has no kernels that were chosen for one, and no CUDA graph: padded lengths have both.
            Lengths 0 and 1 are graphs of their own. With its usual limit of 8 graphs a function, Dynamo stops to
            compile, and the other calls are eager. 1,000,000 calls, 6 h, hide 600 s.
"""

import random
from typing import Any

import torch
from torch.nn.functional import gelu, pad

from aiperf_core import Benchmark, Cost, Tolerance

bench = Benchmark(goal="latency", threads=1)
bench.simulated(metric="served_s", seeds=6)
cpu = bench.on("cpu")

SHORTEST, LONGEST = 17, 2048
# Seconds of a graph; a model of 8e9 parameters by what an H200 reads, and 0.7 of what it multiplies.
GRAPH_S, CALL_S, TOKEN_S = 10.0, 16e9 / 4.36e12, 16e9 / (0.7 * 750e12)
WIDTH, VOCABULARY = 8, 64
ORDER = 1  # the seed of which call has which length, before a draw


def lengths_of(calls, lengths):
    """The tokens of each call: `lengths` different ones with equal ratios."""
    ratio = (LONGEST / SHORTEST) ** (1 / max(1, lengths - 1))
    different = [round(SHORTEST * ratio**i) for i in range(lengths)]
    return different[:calls] + random.Random(ORDER).choices(different, k=max(0, calls - lengths))


@bench.workload(smoke={"calls": 6, "lengths": 3}, cpu={"calls": 200, "lengths": 60})
def inputs(calls, lengths, device, generator):
    order = torch.randperm(calls, device=device, generator=generator)
    tokens = torch.randint(VOCABULARY, (LONGEST,), device=device, generator=generator)
    weights = torch.randn(2, WIDTH, WIDTH, dtype=torch.float64, device=device, generator=generator)
    table = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64, device=device, generator=generator)
    return {
        "sizes": torch.tensor(lengths_of(calls, lengths), device=device)[order],
        "tokens": tokens,
        "table": table,
        "weights": weights,
    }


def layer(tokens, table, weights):
    """A layer of tokens, [tokens, WIDTH]."""
    x = table[tokens]
    return x + gelu(x @ weights[0]) @ weights[1]


@bench.reference(tolerance=Tolerance(1e-9, reason="the same operations in float64"))
def reference(sizes, tokens, table, weights):
    states = layer(tokens, table, weights)
    return {"last": states[sizes - 1]}


@bench.cost
def cost(calls, lengths):
    sizes = lengths_of(calls, lengths)
    return Cost(optimum_s=GRAPH_S + sum(map(call_s, sizes)), tokens=sum(sizes))


def call_s(tokens):
    """The seconds of a call."""
    return max(CALL_S, tokens * TOKEN_S)


bench.awkward({"calls": 1, "lengths": 1}, {"calls": 5, "lengths": 2}, {"calls": 4, "lengths": 9})
cpu.reach(of="SOL", at_least=0.95)


class Compiled:
    """Calls through torch.compile, from no graph on. given(): the tokens as a call passes them."""

    dynamic: bool | None = None

    def run(self, sizes, tokens, table, weights):
        self.graphs = 0
        torch._dynamo.reset()
        call = torch.compile(layer, backend=self.count, dynamic=self.dynamic, fullgraph=True)
        last, served_s = [], 0.0
        # Dynamo would stop to compile after 8 graphs.
        with torch._dynamo.config.patch(recompile_limit=1 << 16, accumulated_recompile_limit=1 << 16):
            for size in sizes.tolist():
                given = self.given(tokens[:size])
                last.append(call(given, table, weights)[size - 1])
                served_s += call_s(len(given))
        return {"last": torch.stack(last), "served_s": served_s + self.graphs * GRAPH_S}

    def count(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        """The backend of Dynamo: what it would compile is counted, and called as it is."""
        self.graphs += 1
        return graph.forward

    def given(self, tokens):
        return tokens


@cpu.baseline(kind="antipattern")
class EachLength(Compiled):
    dynamic = False


@cpu.variant(
    adds="padded lengths",
    why="calls are padded to powers of two: 7 graphs, each with lengths that are known",
    predict="7.5 to 8.4x: 603 s beside 70 s and 2.6 to 5.3 s of calls",
)
class Padded(Compiled):
    dynamic = False

    def given(self, tokens):
        return pad(tokens, (0, (1 << (len(tokens) - 1).bit_length()) - len(tokens)))


@cpu.variant(
    adds="symbols",
    why="Dynamo compiles the first length, and a second that differs as a symbol, which all others are",
    predict="26 to 27x: 603 s beside 20 s and 2.6 s of calls",
)
class Automatic(Compiled):
    pass


@cpu.variant(
    builds_on="automatic",
    adds="marked lengths",
    why="mark_dynamic names the length a symbol at the first call: no graph is made for one length",
    predict="1.75 to 1.85x: 10 s and 2.6 s of calls beside 20 s and 2.6 s",
)
class Marked(Compiled):
    def given(self, tokens):
        torch._dynamo.mark_dynamic(tokens, 0)
        return tokens
