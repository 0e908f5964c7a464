"""A small engine: the schedule, the prefix and the launches of generation, switched on one by one.

Question    What do rows that wait, a common beginning of all prompts, and launches cost an engine of one model?
Numbers     On a GPU, 48 requests of 8 to 128 new tokens, most of them few, after prompts of 160 to 256 that share 128;
            32 rows, 1.1e9 weights in bfloat16. Batches that end together take 247 steps and 2 passes over prompts, rows
            that are filled at once 136 and 10; 127 is the longest answer. A step reads 2.1 GB, 0.48 ms at 4.3 TB/s, and
            has 515 operations: 7.7 ms of the host at 15 us each. On a CPU, 12 requests and 4 rows: 109 and 60 steps of
            80 operations, 1 ms; prompts of 3,000 tokens of 1 MFLOP, 60 ms at 50 GFLOP/s, or of 500 if they share.
Prediction  `continuous`: (247 + 2) / (136 + 10) = 1.7x on a GPU; (60 + 109) / (59 + 60) ms = 1.4x on a CPU.
            `prefix_cache`: (59 + 60) / (10 + 60) = 1.7x on a CPU; nothing on a GPU, whose ten passes of 1,200 tokens
            are 3 ms of products behind 7.7 ms of launches. `graphs`: 136 steps of 1.2 ms, as 450 kernels take 1.08 us
            and more beside the weights, and 11 passes of 7.7: 1120 / 250 ms = 4.5x.
Limits      Requests of one length (`--set least=128`), which are done together; few requests, which all have room;
            prompts without a common beginning. Prompts are computed between steps: long ones hold up all rows.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.errors import UsageError
from aiperf_core.graphs import captured
from aiperf_core.models import Cache, ModelConfig, Transformer, config, planted

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda")

SMOKE = ModelConfig(layers=1, width=24, heads=3, kv_heads=1, hidden=17, vocabulary=67)
CANDIDATES = 16
ROUNDED = 128  # places: the cache is read up to a multiple of these
ORDER = 1  # the seed of the orders of requests
CHUNK = 8  # requests that the reference takes at once
# What no last-level cache holds of the weights is read again in every step.
CACHE_BYTES = 1 << 28


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, in up to 16 layers, and scores are sums of its products"
    return Tolerance(2e-2, reason=why)


@bench.workload(
    smoke={
        **SMOKE.sizes,
        "dtype": "bf16", "requests": 7, "rows": 3, "shared": 5, "shortest": 6, "longest": 11, "least": 1, "most": 9,
    },
    cpu={
        **config("tiny").sizes,
        "dtype": "fp32", "requests": 12, "rows": 4,
        "shared": 224, "shortest": 232, "longest": 256, "least": 2, "most": 48,
    },
    cuda={
        **config("1b").sizes,
        "dtype": "bf16", "requests": 48, "rows": 32,
        "shared": 128, "shortest": 160, "longest": 256, "least": 8, "most": 128,
    },
)  # fmt: skip
def inputs(requests, rows, vocabulary, shared, shortest, longest, least, most, device, generator):
    if not (0 <= shared < shortest <= longest and 1 <= least <= most and requests >= 1 and rows >= 1):
        raise UsageError(
            f"requests={requests}, rows={rows}, shared={shared}, shortest={shortest}, longest={longest}, "
            f"least={least}, most={most}; accepted are shared < shortest <= longest, and 1 <= least <= most"
        )

    order = torch.Generator().manual_seed(ORDER)  # one for all draws, which are then the same work

    def shuffled(values):
        return torch.tensor(values)[torch.randperm(requests, generator=order)].to(device)

    draw = {"device": device, "generator": generator}
    prompts = torch.randint(vocabulary, (requests, longest), **draw)
    prompts[:, :shared] = prompts[0, :shared].clone()
    return {
        "prompts": prompts,
        "length": shuffled(spread(requests, shortest, longest, 1)),
        "new": shuffled(spread(requests, least, most, 3)),
        "candidates": torch.randint(vocabulary, (requests, CANDIDATES), **draw),
    }


def spread(count, least, most, power):
    """`count` whole numbers from `least` to `most`; the higher the power, the fewer large ones."""
    return [least + round((most - least) * (i / max(1, count - 1)) ** power) for i in range(count)]


def model_of(sizes):
    """The model's sizes, of all that a workload has."""
    return ModelConfig(**{name: sizes[name] for name in SMOKE.sizes})


@bench.static
def parameters(dtype, device, generator, **sizes):
    return {"weights": planted(model_of(sizes), device, dtype, generator)}


@bench.reference(tolerance=tolerance)
@torch.inference_mode()
def reference(prompts, length, new, candidates, weights, most, **sizes):
    model = Transformer(model_of(sizes), weights)
    # What follows is known, so the whole text of a request is one pass. Padding behind it has no effect.
    row = torch.arange(len(prompts), device=prompts.device)
    text = functional.pad(prompts, (0, most))
    for place in range(int(length.min()), text.shape[1]):
        following = model.successor[text[:, place - 1]]
        text[:, place] = torch.where(place >= length, following, text[:, place])
    generated = text.gather(1, length[:, None] + torch.arange(most, device=text.device))
    generated[torch.arange(most, device=text.device) >= new[:, None]] = -1
    last = length + new - 2  # the place of the token before the last one
    found = []
    for some in row.split(CHUNK):
        states = model.states(text[some, : int(last[some].max()) + 1])
        states = states[torch.arange(len(some), device=some.device), last[some]]
        found.append(model.logits(states).gather(-1, candidates[some]))
    scores = torch.cat(found)
    return {"tokens": generated, "scores": scores.to(torch.promote_types(scores.dtype, torch.float32))}


@bench.cost
def cost(bits, requests, rows, shared, shortest, longest, least, most, **sizes):
    model = model_of(sizes)
    # The last token of a request is not read again. Lengths and numbers of tokens are shuffled apart, so attention is
    # counted as if the longest prompts had the fewest tokens: no order has less.
    requested = spread(requests, least, most, 3)
    pairs = list(zip(reversed(spread(requests, shortest, longest, 1)), requested, strict=True))
    texts = [length + new - 1 for length, new in pairs]
    tokens = sum(texts) - (requests - 1) * shared
    attended = sum(n * (n + 1) // 2 for n in texts) - (requests - 1) * shared * (shared + 1) // 2
    # A token needs the one before it, and a step has a token for each row; each first token comes with its prompt.
    steps = max(most - 1, -(-sum(new - 1 for new in requested) // rows))
    weights = model.parameters * bits // 8
    # Each step reads the weights, and keys and values of what is a row's own, but for what a cache may have kept.
    own = sum((new - 1) * (length - shared) + (new - 1) * new // 2 for length, new in pairs)
    kept = own * model.layers * 2 * model.kv_width * bits // 8
    return Cost(
        bytes_read=8 * requests * longest + max(0, steps * (weights - CACHE_BYTES) + kept),
        bytes_written=8 * requests * most + 4 * requests * CANDIDATES,
        flops=model.flops(tokens, attended, sum(requested)),
        precision="bf16" if bits == 16 else "fp32",
        tokens=sum(requested),
    )


bench.accept("cost.flops", because="the reference computes the shared prefix of each request, and padding")
# One request, one row; as many rows as requests; one token each; no prefix; float32, and grouped queries.
bench.awkward(
    {"requests": 1, "rows": 1},
    {"requests": 5, "rows": 5, "least": 1, "most": 1},
    {"requests": 6, "rows": 2, "shared": 0, "shortest": 1, "longest": 7},
    {"requests": 9, "rows": 4, "dtype": "fp32", "layers": 2, "heads": 6, "kv_heads": 2, "shared": 5, "most": 130},
)
# 127 steps of 1.9 GB that no cache keeps are 57 ms, of the 250 that steps and passes take: 0.23.
cuda.reach(of="SOL", at_least=0.2, implementation="graphs")
# (60 + 109) / (10 + 60) ms are 2.4x, less what attention to the longer rows takes.
bench.reach(of="speedup", at_least=1.7, implementation="prefix_cache", device="cpu")


class Engine:
    """Rows with room for a request each: keys and values of its tokens, and what it has generated so far."""

    def prepare(self, weights, rows, longest, most, **sizes):
        model = model_of(sizes)
        self.model, self.most = Transformer(model, weights), most
        self.device, dtype = weights["head"].device, weights["head"].dtype
        self.rows, self.room = rows, longest + most
        # One more row than there are requests at a time, for a prefix.
        self.cache = Cache(model, rows + 1, self.room, self.device, dtype)
        self.token, self.length, self.count = torch.zeros(3, rows, dtype=torch.int64, device=self.device)
        self.candidates = torch.zeros(rows, CANDIDATES, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(rows, CANDIDATES, device=self.device)
        # Rows that are done are computed on with the others; what they write beyond their end is not used.
        self.history = torch.zeros(rows, most + 1, dtype=torch.int64, device=self.device)
        self.learn()

    def learn(self):
        """Called once, when there is memory."""

    @torch.inference_mode()
    def run(self, prompts, length, new, candidates):
        lengths, wanted = length.tolist(), new.tolist()
        tokens = torch.full((len(prompts), self.most), -1, dtype=torch.int64, device=self.device)
        scores = torch.empty(candidates.shape, device=self.device)
        waiting = list(range(len(prompts)))[::-1]
        running: dict[int, int] = {}  # requests by their rows
        made = [0] * len(prompts)
        prefix = self.common(prompts, lengths)
        while waiting or running:
            free = [row for row in range(self.rows) if row not in running] if self.may_start(running) else []
            begun = {row: waiting.pop() for row in free[: len(waiting)]}
            if begun:
                running |= begun
                requests = list(begun.values())
                longest = max(lengths[request] for request in requests)
                some = torch.tensor([list(begun), requests, [lengths[one] for one in requests]])
                row, request, end = some.to(self.device)
                self.candidates[row] = candidates[request]
                self.start(row, prompts[request, :longest], end, prefix)
            else:
                self.step(self.rounded(max(lengths[request] + made[request] for request in running.values())))
            for row, request in (begun or running).copy().items():
                made[request] += 1
                if made[request] == wanted[request]:
                    tokens[request, : made[request]] = self.history[row, : made[request]]
                    scores[request] = self.scores[row]
                    del running[row]
        return {"tokens": tokens, "scores": scores}

    def may_start(self, running):
        """Whether requests may start beside those that run."""
        return not running

    def common(self, prompts, lengths):
        """The number of tokens that all prompts begin with and that are in the cache."""
        return 0

    def rounded(self, places):
        """Places of the cache that a step reads."""
        return min(self.room, -(-places // ROUNDED) * ROUNDED)

    def start(self, row, prompts, length, prefix):
        """Put prompts into rows, all but their first `prefix` tokens, and generate their first tokens."""
        for kept in (*self.cache.keys, *self.cache.values) if prefix else ():
            kept[row, :, :prefix] = kept[self.rows, :, :prefix]
        states = self.prefill(row, prompts, prefix)
        logits = self.model.logits(states[torch.arange(len(row), device=self.device), length - 1 - prefix])
        self.length[row], self.count[row], self.token[row] = length, 1, logits.argmax(-1)
        self.history[row, 0] = self.token[row]
        self.scores[row] = logits.gather(-1, self.candidates[row]).float()

    def prefill(self, row, prompts, begin):
        """States of the prompts' tokens from `begin`, whose keys and values are added to the rows'.

        Shorter prompts are padded at their ends. No token before sees that, and the next steps write over it.
        """
        end = prompts.shape[1]
        places = self.cache.place[begin:end].expand(len(row), -1)
        return self.model.states_at(prompts[:, begin:], places, self.cache, span=end, rows=row)

    def step(self, places):
        """Generate a token in each row, with the first `places` places of the cache."""
        # A row that is done stays where it is; it would leave its room.
        at = self.length.clamp(max=self.room - 1)
        states = self.model.states_at(self.token[:, None], at[:, None], self.cache, span=places)
        logits = self.model.logits(states[:, 0])
        self.token.copy_(logits.argmax(-1))
        self.scores.copy_(logits.gather(-1, self.candidates))
        self.history[self.cache.row[: self.rows], self.count.clamp(max=self.most)] = self.token
        self.length.add_(1)
        self.count.add_(1)


@both.baseline(kind="reasonable")
class StaticBatches(Engine):
    pass


@both.variant(adds="continuous batching", why="a row that is done is given to the next request, so no step is for few")
class Continuous(Engine):
    def may_start(self, running):
        return True


@both.variant(
    builds_on="continuous",
    adds="prefix cache",
    why="what all prompts begin with is computed once and then copied",
    teaches="a pass over prompts is launched in more time than its products take: fewer tokens are no fewer launches",
)
class PrefixCache(Continuous):
    def common(self, prompts, lengths):
        same = (prompts == prompts[0]).all(0).long().cumprod(0)
        # Of each prompt, a token is left that says how it goes on.
        prefix = min(int(same.sum()), min(lengths) - 1)
        if prefix and len(prompts) > 1:
            self.prefill(torch.tensor([self.rows], device=self.device), prompts[:1, :prefix], 0)
            return prefix
        return 0


@cuda.variant(builds_on="prefix_cache", adds="cuda graphs", why="the host launches a step once, not its kernels")
class Graphs(PrefixCache):
    def learn(self):
        with torch.inference_mode():
            sizes = {self.rounded(places) for places in range(1, self.room + 1)}
            self.graphs = {places: captured(super(Graphs, self).step, places) for places in sorted(sizes)}

    def step(self, places):
        self.graphs[places].replay()
