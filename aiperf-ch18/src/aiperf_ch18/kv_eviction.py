"""Evicting keys and values: a cache of an eighth takes less memory, and answers what it has kept.

Question    Which tokens may a cache forget, if it is not known what will be asked?
Numbers     4 heads read 4096 tokens, in which 64 facts, a key and a word behind it, are named once, or twice within
            34 tokens; then each is asked for. All keys and values are 17 MB; 512 tokens a head are 2.1 MB. It is an
            induction head, whose weights are computed: the key of a token is the embedding of the token before, its
            value its own, and the first tokens take the attention of queries that match nothing.
Prediction  Both policies keep an eighth, beside what a copy and the scores of 64 queries need meanwhile. Sinks and a
            window keep what was read last: an eighth of the facts. Attention weights, added up while the prompt is
            read, find what is named twice, 3/4 of the facts; for them all queries of the prompt have scores.
Limits      What is named once long ago is lost by any policy that looks back. The time of a question is mostly the
            table that names a word, so that memory is what an eighth saves. Recall is that of this head; heads of a
            model differ, and what one of them has lost another may have.
"""

from typing import Any

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, exact, lossy
from aiperf_core.errors import UsageError

bench = Benchmark(goal="memory", clock="device")
cpu = bench.on("cpu")

SINKS = 4
CHUNK, PIECE = 128, 64  # tokens that are added at a time, and queries that are scored at a time
GAP = 32  # tokens from the first to the second naming of a fact
SEED = 1  # of the embeddings
LEAST = 64  # tokens of a fact and of those around it
SHARP, SINK = 30.0, 0.6  # of scores: at a match, and the share of it at a sink; random tokens stay below 0.5
CACHE_BYTES = 1 << 28  # keys and values that no last-level cache holds are read for each question


def fillers(length):
    """The number of tokens that are no keys of facts, of which few repeat by chance."""
    return 4 * length


@bench.workload(
    smoke={"heads": 2, "length": 523, "facts": 7, "kept": 131, "width": 64, "dtype": "bf16"},
    cpu={"heads": 4, "length": 4096, "facts": 64, "kept": 512, "width": 128, "dtype": "fp32"},
)
def inputs(heads, length, facts, kept, device, generator):
    if facts < 1 or LEAST * facts > length or kept <= SINKS:
        raise UsageError(
            f"length={length}, facts={facts}, kept={kept}; accepted are {LEAST} tokens a fact, and kept > {SINKS}"
        )
    draw = {"device": device, "generator": generator}
    tokens = torch.randint(fillers(length), (heads, length), **draw)
    words = torch.randint(fillers(length), (heads, facts), **draw)
    keys = fillers(length) + torch.rand(heads, facts, **draw).argsort(1)
    number = torch.arange(facts, device=device)
    first, twice = SINKS + number * ((length - SINKS) // facts), number % 4 < 3
    for places, named in ((first, number), (first[twice] + GAP, number[twice])):
        tokens[:, places], tokens[:, places + 1] = keys[:, named], words[:, named]
    return {"tokens": tokens, "asked": keys.gather(1, torch.rand(heads, facts, **draw).argsort(1))}


@bench.reference(tolerance=exact)
def reference(tokens, asked):
    return torch.stack(
        [some[(some == keys[:, None]).int().argmax(1) + 1] for some, keys in zip(tokens, asked, strict=True)]
    )


def of_tokens(count):
    """The cost of questions to the cached tokens of each head, of which `count` is the name of the size."""

    def cost(heads, length, facts, width, bits, **sizes):
        cached = heads * min(length, sizes.get(count, length)) * width
        size = 2 * cached * bits // 8
        return Cost(
            bytes_read=8 * heads * (length + facts) + (size * facts if size > CACHE_BYTES else 0),
            bytes_written=8 * heads * facts,
            flops=facts * (4 * cached + 2 * heads * fillers(length) * width),
            precision="bf16" if bits == 16 else "fp32",
            tokens=heads * facts,
        )

    return cost


bench.cost(of_tokens("length"))
bench.accept("cost.flops", because="the reference looks the answers up")


@bench.metric
def lost(output, reference):
    """The share of questions with a wrong answer."""
    return float((output != reference).double().mean())


# One fact; a cache that holds all; parts of chunks.
bench.awkward(
    {"heads": 1, "length": 64, "facts": 1}, {"length": 300, "facts": 4, "kept": 1000}, {"length": 641, "kept": 150}
)
# An eighth of the cache, twice while it is copied, and the scores of 64 queries.
cpu.reach(of="memory:full", at_most=0.5, implementation="heavy_hitters")
cpu.reach(of="memory:full", at_most=0.45, implementation="sinks_window")


def embeddings(length, facts, width, dtype, device):
    """A vector of length 1 for each token: [tokens, width]. The last element is for sinks, and 0."""
    drawn = torch.randn(fillers(length) + facts, width, generator=torch.Generator().manual_seed(SEED))
    drawn[:, -1] = 0
    return functional.normalize(drawn).to(device, dtype)


def embedded(tokens, table, start, end):
    """The keys and values of tokens from `start` to `end`."""
    before = functional.pad(tokens, (1, -1))[:, start:end]
    keys, values = table[before], table[tokens[:, start:end]]
    if start < SINKS:
        keys[:, : SINKS - start], values[:, : SINKS - start] = 0, 0
        keys[:, : SINKS - start, -1] = SINK
    return keys, values


def queries(tokens, table):
    """Embeddings, which also match sinks."""
    rows = table[tokens]
    rows[..., -1] = 1
    return rows


@cpu.baseline(kind="reasonable")
class Full:
    def prepare(self, tokens, length, facts, width, dtype):
        self.table = embeddings(length, facts, width, dtype, tokens.device)

    def read(self, tokens, kept):
        """The keys and values that the questions see."""
        table = self.table
        keys, values = (table.new_empty(*tokens.shape, table.shape[1]) for _ in range(2))
        for start in range(0, tokens.shape[1], CHUNK):
            some = slice(start, start + CHUNK)
            keys[:, some], values[:, some] = embedded(tokens, table, start, start + CHUNK)
        return keys, values

    def run(self, tokens, asked, length, kept):
        keys, values = self.read(tokens, kept)
        answers = torch.empty_like(asked)
        for number in range(asked.shape[1]):
            query = queries(asked[:, number, None], self.table)[:, None]
            mixed = functional.scaled_dot_product_attention(query, keys[:, None], values[:, None], scale=SHARP)
            answers[:, number] = (mixed[:, 0, 0] @ self.table[: fillers(length)].T).argmax(-1)
        return answers


@cpu.variant(
    adds="sinks and window",
    why="the first tokens and the last ones are kept: an eighth of the bytes in memory",
    predict="2.2 to 4.5x: an eighth of 17 MB, twice while it is copied, beside the table of embeddings",
    lossy=lossy("lost", at_most=0.95),
    cost=of_tokens("kept"),
)
class SinksWindow(Full):
    def read(self, tokens, kept):
        table = self.table
        keys = values = table.new_empty(len(tokens), 0, table.shape[1])
        self.weights = torch.zeros(len(tokens), 0, device=table.device)
        for start in range(0, tokens.shape[1], CHUNK):
            some = tokens[:, start : start + CHUNK]
            more_keys, more_values = embedded(tokens, table, start, start + CHUNK)
            keys, values = torch.cat([keys, more_keys], 1), torch.cat([values, more_values], 1)
            self.observe(queries(some, table), keys)
            if keys.shape[1] > kept:
                chosen = self.chosen(keys, kept)
                keys, values = keys.take_along_dim(chosen[..., None], 1), values.take_along_dim(chosen[..., None], 1)
        return keys, values

    def observe(self, rows, keys):
        """Note which keys the queries of new tokens attend to."""

    def chosen(self, keys, kept):
        """The places of the keys that stay, in order."""
        places = torch.arange(keys.shape[1], device=keys.device)
        return torch.cat([places[:SINKS], places[SINKS - kept :]]).expand(len(keys), -1)


@cpu.variant(
    builds_on="sinks_window",
    adds="heavy hitters",
    why="half of the places are for the tokens that had most attention, which is added up as the prompt is read",
    teaches="recall of what was named twice has a price: attention weights that a fused kernel never writes down",
    lossy=lossy("lost", at_most=0.35),
    cost=of_tokens("kept"),
)
class HeavyHitters(SinksWindow):
    weights: Any

    def observe(self, rows, keys):
        known = keys.shape[1] - rows.shape[1]
        self.weights = functional.pad(self.weights, (0, rows.shape[1]))
        places = torch.arange(keys.shape[1], device=keys.device)
        for start in range(0, rows.shape[1], PIECE):
            some = rows[:, start : start + PIECE]
            own = known + start + torch.arange(some.shape[1], device=keys.device)
            scores = SHARP * (some @ keys.mT)
            scores.masked_fill_(places > own[:, None], -torch.inf)
            self.weights += scores.softmax(-1).sum(1, dtype=torch.float32)

    def chosen(self, keys, kept):
        sure = self.weights.clone()
        sure[:, :SINKS] = torch.inf
        sure[:, -((kept - SINKS + 1) // 2) :] = torch.inf
        chosen = sure.topk(kept, dim=1).indices.sort(dim=1).values
        self.weights = self.weights.take_along_dim(chosen, 1)
        return chosen
