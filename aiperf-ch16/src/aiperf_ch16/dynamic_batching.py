"""Dynamic batching: requests that wait a little share a pass through the weights.

Question    More requests come than a model serves one by one. What may a batch of those that wait cost and gain?
Numbers     On a CPU, 200 prompts of 4 to 32 tokens arrive at 20,000 a second, a fifth of them in bursts: all are there
            before most are served. 13.2 tokens a prompt in the mean, with two layers of width 128; the answers are the
            token that follows each prompt, and scores of 16 others. One by one, every weight is read and every
            operation launched 200 times.
Prediction  `waiting` takes 16 prompts a pass: 13 passes, and 2.2 times the tokens, for most of a batch is padding.
            `buckets` takes prompts of like length: 14 passes, and 1.1 times the tokens. It is faster, as far as tokens
            and not passes take the time. `timeout` and `deadline` change who waits, not how much is computed.
Limits      Below the rate that `one_by_one` sustains a call of any variant lasts as long as its arrivals: compare
            latencies then. At some 300 tokens a prompt a GPU's products last as long as the reading of their bfloat16
            weights: batches then save launches alone, and their padding costs time.
"""

import time

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.models import ModelConfig, Transformer, config, planted
from aiperf_core.serving import Request

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1)
both = bench.on(("cpu", "cuda"))

CANDIDATES = 16
TIMEOUT_S = 0.005
# A batch of like lengths may have this part of padding.
PADDING = 0.25
BURSTS = 6
MEASURED_TIMES = 5
ORDER = 1  # the seed of the order of lengths
CHUNK = 16  # requests that the reference takes at once


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, in up to 16 layers, and scores are sums of its products"
    return Tolerance(2e-2, reason=why)


# A trace for a GPU, at a rate that batches sustain. The reference, in float64, takes longer for it than all servers
# together, so a run has a short one unless it is asked for `trace`.
ON_A_GPU = {
    **config("1b").sizes,
    "dtype": "bf16",
    "requests": 400,
    "shortest": 128,
    "longest": 512,
    "rate_per_s": 500,
    "burst": 0.2,
    "most_in_batch": 32,
    "deadline_s": 0.2,
}


@bench.workload(
    served=("tokens", "length", "candidates"),
    smoke={
        **ModelConfig(layers=1, width=24, heads=3, kv_heads=1, hidden=17, vocabulary=67).sizes,
        "dtype": "bf16",
        "requests": 19,
        "shortest": 1,
        "longest": 11,
        "rate_per_s": 2000,
        "burst": 0.3,
        "most_in_batch": 5,
        "deadline_s": 0.02,
    },
    cpu={
        **config("tiny").sizes,
        "dtype": "fp32",
        "requests": 200,
        "shortest": 4,
        "longest": 32,
        "rate_per_s": 20000,
        "burst": 0.2,
        "most_in_batch": 16,
        "deadline_s": 0.02,
    },
    cuda={**ON_A_GPU, "requests": 100, "rate_per_s": 20000},
    trace=ON_A_GPU,
)
def inputs(requests, shortest, longest, vocabulary, rate_per_s, burst, device, generator):
    def uniform(*shape):
        return torch.rand(*shape, dtype=torch.float64, device=device, generator=generator)

    # A Poisson process with this many arrivals in this time: they are independent and uniform.
    arrival_s = uniform(requests)
    together = int(burst * requests)
    arrival_s[:together] = uniform(BURSTS).repeat(-(-together // BURSTS))[:together]
    # More short prompts than long ones, in one order, so that all traces are the same work.
    order = torch.randperm(requests, generator=torch.Generator().manual_seed(ORDER))
    length = shortest + (((order + 0.5) / requests).square() * (longest - shortest + 1)).long().to(device)
    draw = {"device": device, "generator": generator}
    return {
        "tokens": torch.randint(vocabulary, (requests, longest), **draw),
        "length": length,
        "candidates": torch.randint(vocabulary, (requests, CANDIDATES), **draw),
        "arrival_s": arrival_s.sort().values * (requests / rate_per_s),
    }


@bench.static
def parameters(layers, width, heads, kv_heads, hidden, vocabulary, dtype, device, generator):
    model = ModelConfig(
        layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
    )
    return {"weights": planted(model, device, dtype, generator)}


@bench.reference(tolerance=tolerance)
def reference(tokens, length, candidates, weights, layers, width, heads, kv_heads, hidden, vocabulary):
    model = Transformer(
        ModelConfig(layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary),
        weights,
    )
    rows = list(zip(tokens.split(CHUNK), length.split(CHUNK), candidates.split(CHUNK), strict=True))
    scored = [score(model, some[:, : int(long.max())], long, those) for some, long, those in rows]
    following, scores = zip(*scored, strict=True)
    return {"following": torch.cat(following), "scores": torch.cat(scores)}


@bench.cost
def cost(layers, width, heads, kv_heads, hidden, vocabulary, bits, requests, shortest, longest):
    model = ModelConfig(
        layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
    )
    # A third of the way from the shortest to the longest, as the square of a uniform number is in the mean.
    length = shortest + (longest - shortest) / 3
    return Cost(
        bytes_read=8 * requests * length,
        bytes_written=4 * requests * (CANDIDATES + 2),
        flops=model.flops(requests * length, requests * length * (length + 1) / 2, requests),
        precision="bf16" if bits == 16 else "fp32",
        tokens=requests * length,
    )


@torch.inference_mode()
def score(model, tokens, length, candidates):
    """The token that follows each prompt, and the scores of its candidates. Padding behind a prompt has no effect."""
    last = model.states(tokens)[torch.arange(len(tokens), device=tokens.device), length - 1]
    logits = model.logits(last)
    return logits.argmax(-1), logits.gather(-1, candidates).to(torch.promote_types(logits.dtype, torch.float32))


class Serving:
    """A loop that takes what has come, chooses a batch of it, and answers. Which, is the implementation's."""

    def prepare(self, weights, layers, width, heads, kv_heads, hidden, vocabulary, longest, most_in_batch):
        self.most, self.longest = int(most_in_batch), longest
        sizes = ModelConfig(
            layers=layers, width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, vocabulary=vocabulary
        )
        self.model, self.device = Transformer(sizes, weights), weights["head"].device
        # Copies to the device start from here; to fill it again, the answers must have come.
        self.staged = torch.zeros(
            self.most, longest + 1 + CANDIDATES, dtype=torch.int64, pin_memory=self.device.type == "cuda"
        )
        self.learn()

    def learn(self):
        """Called once, when the model is there."""

    def run(self, desk):
        waiting: list[Request] = []
        while desk.is_open:
            waiting += desk.arrived() if waiting else desk.wait()
            self.gather(desk, waiting)
            batch = self.choose(waiting, desk.now_s)
            chosen = {request.number for request in batch}
            waiting = [request for request in waiting if request.number not in chosen]
            following, scores = self.serve(batch)
            desk.answer(batch, following=following, scores=scores)

    def gather(self, desk, waiting):
        """Wait for more to come, or not."""

    def choose(self, waiting, now_s):
        """The batch among those that wait, at least one, which are in the order of their arrival."""
        return waiting[: self.most]

    def serve(self, batch):
        """The answers of some requests, padded to the longest of them."""
        longest = max(request["length"] for request in batch)
        rows = self.staged[: len(batch)]
        for row, request in zip(rows, batch, strict=True):
            row[:longest] = request["tokens"][:longest]
            row[self.longest] = request["length"]
            row[self.longest + 1 :] = request["candidates"]
        here = rows.to(self.device, non_blocking=True)
        tokens, length, candidates = here[:, :longest], here[:, self.longest], here[:, self.longest + 1 :]
        return score(self.model, tokens, length, candidates)


bench.accept("cost.flops", because="the reference also computes the padding behind short prompts")
# One request; none in a burst, and all; prompts of one length; batches of one; all at once; float32.
bench.awkward(
    {"requests": 1},
    {"requests": 7, "burst": 0, "shortest": 5, "longest": 5},
    {"requests": 23, "burst": 1.0, "most_in_batch": 4},
    {"requests": 5, "most_in_batch": 1},
    {"requests": 40, "rate_per_s": 1e6, "most_in_batch": 7},
    {"requests": 37, "dtype": "fp32", "layers": 2},
)
# On a CPU a pass has 64 operations of 7 us, 0.45 ms, and a token 1 MFLOP, 12 us at 80 GFLOP/s: 14 passes of 1.1 times
# the tokens in place of 200 are (6 + 35) / (90 + 32) = 0.34. On a GPU the launches of a pass are most of it.
both.reach(of="time:one_by_one", at_most=0.5, implementation="buckets")


@both.baseline(kind="naive")
class OneByOne(Serving):
    def choose(self, waiting, now_s):
        return waiting[:1]


@both.variant(adds="batching", why="a weight that is read, and an operation that is launched, serves all that wait")
class Waiting(Serving):
    pass


@both.variant(
    builds_on="waiting",
    adds="timeout",
    why="a batch that waits for a moment is larger, and is started less often for the same requests",
    teaches="above the rate that is sustained batches are full without a wait; far below it every request waits longer",
)
class Timeout(Waiting):
    def gather(self, desk, waiting):
        until_s = waiting[0].arrival_s + TIMEOUT_S
        while len(waiting) < self.most and desk.now_s < until_s:
            waiting += desk.wait(until_s)


@both.variant(
    builds_on="waiting",
    adds="length buckets",
    why="prompts of like length have little padding, which costs as much as tokens",
)
class Buckets(Serving):
    def choose(self, waiting, now_s):
        # Around the oldest, so that everybody's turn comes; the nearest lengths first.
        oldest = waiting[0]["length"]
        batch: list[Request] = []
        tokens = longest = 0
        for request in sorted(waiting, key=lambda one: abs(one["length"] - oldest))[: self.most]:
            tokens, longest = tokens + request["length"], max(longest, request["length"])
            if tokens < (1 - PADDING) * longest * (len(batch) + 1):
                break
            batch.append(request)
        return batch


@both.variant(
    builds_on="buckets",
    adds="deadlines",
    why="no batch takes longer than its most urgent request can wait",
    teaches="smaller batches are more passes: the gain is in answers within the deadline, not in the time for all",
)
class Deadline(Buckets):
    def learn(self):
        # The time of a batch, as so much a token and so much at least.
        few, many = self.seconds(1), self.seconds(self.most)
        self.token_s = max(0.0, many - few) / ((self.most - 1) * self.longest or 1)
        self.least_s = max(0.0, few - self.token_s * self.longest)

    def seconds(self, count):
        """The shortest time of several for a batch of the longest prompts; the first is not counted."""
        rows = torch.zeros(count, self.longest, dtype=torch.int64, device=self.device)
        length, candidates = rows.new_full((count,), self.longest), rows.new_zeros(count, CANDIDATES)
        times = []
        for _ in range(1 + MEASURED_TIMES):
            start = time.perf_counter()
            score(self.model, rows, length, candidates)[1].cpu()
            times.append(time.perf_counter() - start)
        return min(times[1:])

    def batch_s(self, count, longest):
        """How long a batch takes."""
        return self.least_s + self.token_s * count * longest

    def choose(self, waiting, now_s):
        in_time = [one for one in waiting if now_s + self.batch_s(1, one["length"]) <= one.due_s]
        batch = super().choose(in_time or waiting, now_s)
        # All are given the same time, so the oldest is the most urgent; it comes first.
        while len(batch) > 1 and in_time:
            if now_s + self.batch_s(len(batch), max(one["length"] for one in batch)) <= batch[0].due_s:
                break
            batch.pop()
        return batch
