"""Chunked prefill: a prompt that shares its steps with texts makes none of them wait for all of it.

Question    How long do texts wait for their next token while prompts of thousands of tokens arrive, and what do the
            prompts lose if they are cut?
Numbers     A model of 8e9 parameters in bfloat16 on an H200, by its ceilings: 16 GB of weights a step, 3.7 ms at the
            rate of a read, 33,000 tokens a second at 0.7 of the rate of products, 131 KB of cache a token. 3 requests
            a second: prompts of 2048 to 8192 tokens, 200 tokens out. A step has a token of each text, and prompts.
            Floor of a gap between two tokens: a step that reads the weights. A seed draws the load.
Prediction  A prompt is 62 to 250 ms in one step, and 1 % of gaps are longer than 0.15 s. Pieces of 2048 tokens take 62
            ms and what the texts take. A step of at most 20 ms has some 600 tokens: 150 / 20 = 7.5x. A prompt needs as
            many tokens of arithmetic as before, and reads the cache of the texts with each piece, 2 to 4 ms of 20.
Limits      Below 120 tokens a step reads weights in the time of its products: pieces of 64 tokens would take twice as
            long. At twice the load the steps are full, and first tokens come later by more than a third. Attention of
            prompts to themselves is not in the table.
"""

import heapq
from collections import deque
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, Tolerance, lossy

bench = Benchmark(goal="latency", threads=1)
bench.simulated(metric="gap_p99_s", seeds=20)
cpu = bench.on("cpu")

# The table of steps, from what an H200 reaches: 4.36 TB/s of reads and 0.7 of 750 TFLOP/s.
PARAMETERS, CACHE_BYTES = 8e9, 131_072
READ_PER_S, TOKENS_PER_S = 4.36e12, 0.7 * 750e12 / (2 * PARAMETERS)
WEIGHTS_S, CACHED_S = 2 * PARAMETERS / READ_PER_S, CACHE_BYTES / READ_PER_S
BUDGET_S, PIECE = 0.020, 2048
SHARE = 0.99


@bench.workload(
    smoke={"requests": 12, "rate_per_s": 2, "output": 20},
    cpu={"requests": 400, "rate_per_s": 3, "output": 200},
)
def inputs(requests, rate_per_s, device, generator):
    def uniform():
        return torch.rand(requests, dtype=torch.float64, device=device, generator=generator)

    return {"arrivals_s": (-torch.log1p(-uniform()) / rate_per_s).cumsum(0), "prompts": (2048 * 4 ** uniform()).floor()}


def step_s(tokens, cached):
    """The seconds of a step with this number of tokens, whose texts have `cached` in the cache."""
    return max(WEIGHTS_S, tokens / TOKENS_PER_S) + CACHED_S * cached


def simulated(arrivals_s, prompts, output, room):
    """The time to the first token of each request, and the gap that SHARE of all others do not exceed.

    room(texts, cached, left): the tokens of prompts in the next step, if the first that waits has `left` to go.
    """
    coming = deque(zip(arrivals_s.tolist(), map(int, prompts.tolist()), range(len(prompts)), strict=True))
    waiting, ends = deque[list[Any]](), list[tuple[int, int]]()
    first_s, gaps = torch.zeros_like(arrivals_s), list[tuple[float, int]]()
    now_s, step, cached = 0.0, 0, 0
    while coming or waiting or ends:
        if not (waiting or ends):
            now_s = max(now_s, coming[0][0])
        while coming and coming[0][0] <= now_s:
            arrival_s, prompt, number = coming.popleft()
            waiting.append([arrival_s, prompt, number, prompt])
        texts, tokens, done = len(ends), 0, list[Any]()
        free = room(texts, cached, waiting[0][3]) if waiting else 0
        while waiting and free:
            taken = min(free, waiting[0][3])
            waiting[0][3] -= taken
            free, tokens = free - taken, tokens + taken
            if not waiting[0][3]:
                done.append(waiting.popleft())
        took_s = step_s(texts + tokens, cached)
        now_s, step, cached = now_s + took_s, step + 1, cached + texts + tokens
        if texts:
            gaps.append((took_s, texts))
        for arrival_s, prompt, number, _ in done:
            first_s[number] = now_s - arrival_s
            heapq.heappush(ends, (step + output - 1, prompt + output - 1))
        while ends and ends[0][0] <= step:
            cached -= heapq.heappop(ends)[1]
    return first_s, weighted(gaps)


def weighted(gaps):
    """The gap that SHARE of all do not exceed; each counts as often as there were texts."""
    left = (1 - SHARE) * sum(count for _, count in gaps)
    for gap_s, count in sorted(gaps, reverse=True):
        left -= count
        if left < 0:
            return gap_s
    return WEIGHTS_S


def whole(texts, cached, left):
    """A prompt in one step."""
    return left


@bench.reference(tolerance=Tolerance(1e-9, reason="the same sums of float64"))
def reference(arrivals_s, prompts, output):
    return {"first_s": simulated(arrivals_s, prompts, output, whole)[0]}


@bench.metric
def later(output, reference):
    """How much later first tokens come, in the mean; earlier ones count as much, so that none is left out."""
    return float((output["first_s"] - reference["first_s"]).abs().mean() / reference["first_s"].mean())


@bench.cost
def cost(requests, output):
    return Cost(optimum_s=WEIGHTS_S, tokens=requests * output)


bench.awkward({"requests": 1}, {"requests": 2, "output": 1}, {"requests": 13, "rate_per_s": 400, "output": 3})
cpu.reach(of="SOL", at_least=WEIGHTS_S / (1.25 * BUDGET_S), implementation="budgeted")  # p99 within 1.25 budgets


class Server:
    """Serves a load. room(): each policy has its own."""

    room: Any

    def run(self, arrivals_s, prompts, output):
        first_s, gap_s = simulated(arrivals_s, prompts, output, self.room)
        return {"first_s": first_s, "gap_p99_s": gap_s}


@cpu.baseline(kind="reasonable")
class Whole(Server):
    room = staticmethod(whole)


@cpu.variant(
    adds="pieces",
    why="a step has at most 2048 tokens of prompts, and texts have their next token after each piece",
    predict="2 to 4x: 62 ms and the texts in place of 150 to 250",
    lossy=lossy("later", at_most=0.25),
)
class Pieces(Server):
    def room(self, texts, cached, left):
        return PIECE


@cpu.variant(
    builds_on="pieces",
    adds="a budget of time",
    why="a step has as many tokens of prompts as the table lets into 20 ms beside the texts that it has",
    predict="2.8 to 3.8x: 62 ms and the cache of the texts in place of 20",
    lossy=lossy("later", at_most=0.25),
)
class Budgeted(Server):
    def room(self, texts, cached, left):
        return max(1, int((BUDGET_S - CACHED_S * cached) * TOKENS_PER_S) - texts)
