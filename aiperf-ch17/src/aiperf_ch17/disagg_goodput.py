"""Disaggregated serving: prefill and decode on GPUs of their own, and the rate at which both deadlines are kept.

Workload   A trace of prompts with the number of tokens to generate, and `gpus` simulated GPUs, by
           `aiperf_core.simulation` with its invariants checked in every call. A request is good when its first token
           comes within `ttft_s` and the others every `tpot_s` on average. The goodput of a plan is the highest rate of
           arrivals at which nine of ten requests are good. `prepare` finds it by bisection; a call serves the trace at
           that rate, at `pace` real seconds a second, so a plan with a higher goodput is done earlier. The answer of a
           request is a checksum over its tokens and its arrival; all answers are zero where fewer than nine of ten
           were good.
Baseline   Every GPU does both: a prompt is prefilled when it comes, and all texts on that GPU wait for it.
Variants   `chunked`: a prompt is prefilled in chunks, each in a step with a token of every text, which reads the
           weights anyway.  `even_split`: half of the GPUs prefill, the others decode; keys and values go over a link of
           `link_bytes_per_s`.  `best_split`: as many of them prefill as gives the highest rate.
Breaks     A loose `tpot_s`: all that counts is that no GPU is idle, and one that does both is never idle for want of
           one kind of work. A tight `ttft_s`: the chunks of a prompt take turns with texts, and `chunked` loses what it
           gained. A slow link delays the second token. On real GPUs chunks also read the cache again, which is not
           simulated.
"""

import math
from typing import Any

import torch
from attrs import define, field
from simpy import Resource

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.simulation import Simulation, trace

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1)
cpu = bench.on("cpu")

# Of a step of a GPU: the time to read all weights, in which it also computes, the tokens that it computes in a second,
# and the time to read the cache of a text.
WEIGHTS_S, TOKENS_PER_S, TEXT_S = 0.015, 20_000, 0.00015
KV_BYTES = 1 << 17  # of a token
CHUNK = 256
GOOD = 0.9
MOST_TEXTS = 256
RESOLUTION = 1.05  # of rates that are tried
MODULUS = 1_000_003


@bench.workload(
    smoke={
        "requests": 5,
        "output": 4,
        "gpus": 2,
        "ttft_s": 0.5,
        "tpot_s": 0.03,
        "link_bytes_per_s": 5e10,
        "pace": 0.001,
    },
    cpu={
        "requests": 64,
        "output": 16,
        "gpus": 4,
        "ttft_s": 0.5,
        "tpot_s": 0.025,
        "link_bytes_per_s": 5e10,
        "pace": 0.04,
    },
)
def inputs(requests, device, generator):
    return {"words": torch.randint(1, MODULUS, (requests,), device=device, generator=generator)}


@bench.static
def recorded(requests, output, device, generator):
    """The trace at one request a second on average."""

    def uniform():
        return torch.rand(requests, dtype=torch.float64, device=device, generator=generator)

    return {
        "prompts": (200 * 20 ** uniform()).long(),
        "outputs": (1 + output * (0.5 + uniform())).long(),
        "gaps_us": (-1e6 * torch.log1p(-uniform())).long(),
    }


@bench.reference(tolerance=exact)
def reference(words, prompts, outputs, gaps_us):
    state = (words + prompts) % MODULUS
    for step in range(int(outputs.max())):
        state = torch.where(step < outputs, (31 * state + words) % MODULUS, state)
    return state + gaps_us.cumsum(0)


@bench.cost
def cost(requests, output):
    return Cost(bytes_read=32 * requests, bytes_written=8 * requests, tokens=requests * output)


bench.awkward(
    {"requests": 1, "output": 1},
    {"requests": 13, "gpus": 3, "link_bytes_per_s": 1e9},
    {"requests": 7, "gpus": 5, "output": 2},
)
cpu.reach(of="time:colocated", at_most=0.67, implementation="best_split")


@define(eq=False)
class Text:
    """A request: what is known of it, and what has happened to it."""

    prompt: int
    output: int
    word: int
    state: int = 0
    chunk: int = 0  # tokens of the next piece of its prompt; 0 when it decodes
    done: int = 0  # tokens of the prompt that are prefilled
    tokens_s: list[float] = field(factory=list)

    def forward(self, now_s):
        """After a step: a chunk of the prompt is there, or a token."""
        self.done += self.chunk
        if not self.state and self.done == self.prompt:
            self.state, self.chunk = (self.word + self.done) % MODULUS, 0
        if not self.chunk:
            self.state = (31 * self.state + self.word) % MODULUS
            self.tokens_s.append(now_s)


def step_s(batch):
    """A step of a GPU: the chunks of prompts, and a token of each text that decodes."""
    texts = [request.about for request in batch]
    decoding = sum(not text.chunk for text in texts)
    tokens = decoding + sum(text.chunk for text in texts)
    return max(WEIGHTS_S, tokens / TOKENS_PER_S) + TEXT_S * decoding


class Gpu:
    """A simulated GPU: a station for steps, and one prompt at a time."""

    def __init__(self, simulation, name):
        self.station = simulation.station(name, step_s, most=MOST_TEXTS)
        self.prompt = Resource(simulation.environment)
        self.here = 0

    def prefill(self, simulation, request, chunk):
        """Prefill a request in pieces of up to `chunk` tokens."""
        text = request.about
        with self.prompt.request() as turn:
            yield turn
            while text.done < text.prompt:
                text.chunk = min(chunk, text.prompt - text.done)
                yield self.station.visit(request)
                text.forward(simulation.environment.now)

    def decode(self, simulation, request):
        """Generate what is left of a request."""
        text = request.about
        while len(text.tokens_s) < text.output:
            yield self.station.visit(request)
            text.forward(simulation.environment.now)


class Plan:
    """Finds the goodput of a plan, and serves the trace at that rate.

    serve(simulation, gpus, request): the way of a request, as a process of the simulation. Each plan has its own.
    """

    serve: Any

    def prepare(self, prompts, outputs, gaps_us, gpus, ttft_s, tpot_s, link_bytes_per_s, pace):
        self.prompts, self.outputs = prompts.tolist(), outputs.tolist()
        self.arrivals_us = gaps_us.cumsum(0).tolist()
        self.gpus, self.link_bytes_per_s, self.pace = int(gpus), link_bytes_per_s, pace
        self.deadlines_s = ttft_s, tpot_s
        self.rate = self.goodput()

    def goodput(self):
        """The highest rate of requests a second that the plan sustains. Raises `SkipError` where there is none."""
        if not self.is_good_at(low := 1.0):
            raise SkipError("the deadlines are missed at a request a second")
        high = low * 2
        while self.is_good_at(high):
            low, high = high, high * 2
            if high > 1e6:  # all at once
                return low
        while high > RESOLUTION * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.is_good_at(middle) else (low, middle)
        return low

    def is_good_at(self, rate):
        return self.good(self.simulate([1] * len(self.prompts), rate, 0.0)) >= GOOD

    def good(self, texts):
        """The part of the texts that keep both deadlines."""
        ttft_s, tpot_s = self.deadlines_s
        pairs = zip(texts, self.figures.requests, strict=True)
        kept = [
            text.tokens_s[0] - request.arrival_s <= ttft_s
            and text.tokens_s[-1] - text.tokens_s[0] <= tpot_s * (text.output - 1)
            for text, request in pairs
        ]
        return sum(kept) / len(kept)

    def simulate(self, words, rate, pace):
        """All texts after the trace was served."""
        simulation = Simulation(pace=pace)
        gpus = [Gpu(simulation, f"gpu {number}") for number in range(self.gpus)]
        texts = [Text(*row) for row in zip(self.prompts, self.outputs, words, strict=True)]
        times = trace(one / 1e6 / rate for one in self.arrivals_us)
        simulation.arrive(times, lambda request: self.serve(simulation, gpus, request), texts)
        self.figures = simulation.run()
        return texts

    def run(self, words):
        texts = self.simulate(words.tolist(), self.rate, self.pace)
        # When each arrived, by the clock of the simulation, at a rate of one request a second.
        arrived_us = [round(1e6 * self.rate * request.arrival_s) for request in self.figures.requests]
        kept = self.good(texts) >= GOOD
        return torch.tensor([kept * (text.state + us) for text, us in zip(texts, arrived_us, strict=True)])


def least_busy(gpus):
    """The GPU with the fewest requests."""
    return min(gpus, key=lambda gpu: gpu.here)


@cpu.baseline(kind="reasonable")
class Colocated(Plan):
    chunk = 1 << 40

    def serve(self, simulation, gpus, request):
        gpu = least_busy(gpus)
        gpu.here += 1
        yield from gpu.prefill(simulation, request, self.chunk)
        yield from gpu.decode(simulation, request)
        gpu.here -= 1


@cpu.variant(
    adds="chunked prefill", why="a prompt holds up the texts on its GPU for a chunk at a time, and not for all of it"
)
class Chunked(Colocated):
    chunk = CHUNK


@cpu.variant(adds="disaggregation", why="no text waits for another's prompt, so GPUs can prefill without a pause")
class EvenSplit(Plan):
    def goodput(self):
        if self.gpus < 2:
            raise SkipError("takes a GPU for prefill and another for decode")
        self.split = self.gpus // 2
        return super().goodput()

    def serve(self, simulation, gpus, request):
        for gpu, part in (
            (least_busy(gpus[: self.split]), "prefill"),
            (least_busy(gpus[self.split :]), "decode"),
        ):
            gpu.here += 1
            if part == "prefill":
                yield from gpu.prefill(simulation, request, 1 << 40)
                yield simulation.environment.timeout(KV_BYTES * request.about.prompt / self.link_bytes_per_s)
            else:
                yield from gpu.decode(simulation, request)
            gpu.here -= 1


@cpu.variant(
    builds_on="even_split",
    adds="searched split",
    why="the trace decides how many GPUs each phase wants; of the other phase, too many are idle",
)
class BestSplit(EvenSplit):
    def goodput(self):
        if self.gpus < 2:
            raise SkipError("takes a GPU for prefill and another for decode")
        rates = {}
        for split in range(1, self.gpus):
            self.split = split
            rates[split] = Plan.goodput(self)
        self.split = max(rates, key=rates.__getitem__)
        return rates[self.split]
