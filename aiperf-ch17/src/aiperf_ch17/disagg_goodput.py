"""Disaggregated serving: prefill and decode on GPUs of their own, and how many requests keep both deadlines.

Question    Of requests that arrive at `rate_per_s`, how many keep both deadlines when prompts and texts share GPUs?
Numbers     96 requests on 4 simulated GPUs at 46 a second. A prompt has 200 to 4,000 tokens, 1,268 on average, and is
            prefilled at 20,000 a second; a text gets 16 tokens, each in a step that reads the weights in 15 ms. Good:
            the first token within `ttft_s`, the others every `tpot_s` on average. Floor: every request is good, and one
            comes every 1 / 46 s. A seed draws the trace, the same for all plans.
Prediction  Prefill needs 46 x 1268 / 20000 = 2.9 GPUs: two that do nothing else have too little, three just enough. A
            prompt of 63 ms holds up a text by four steps, so that shared GPUs miss `tpot_s`. Chunks hold it up by one,
            but each step of a chunk has texts beside it: `chunked` falls behind before `best_split` does.
Limits      A loose `tpot_s` (0.05): all that counts is that no GPU is idle. A tight `ttft_s` (0.2): chunks of a prompt
            take turns with texts, and come too late. A slow link (2e9) delays the second token. On real GPUs chunks
            read the cache again, which is not simulated.
"""

from typing import Any

import torch
from attrs import define, field
from simpy import Resource

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.simulation import Simulation, trace

bench = Benchmark(goal="throughput", threads=1)
bench.simulated(metric="s_per_good", seeds=20)
cpu = bench.on("cpu")

# Of a step of a GPU: the time to read all weights, in which it also computes, the tokens that it computes in a second,
# and the time to read the cache of a text.
WEIGHTS_S, TOKENS_PER_S, TEXT_S = 0.015, 20_000, 0.00015
KV_BYTES = 1 << 17  # of a token
CHUNK = 256
MOST_TEXTS = 256
MODULUS = 1_000_003


@bench.workload(
    smoke={
        "requests": 5,
        "output": 4,
        "gpus": 2,
        "rate_per_s": 8,
        "ttft_s": 0.5,
        "tpot_s": 0.03,
        "link_bytes_per_s": 5e10,
    },
    cpu={
        "requests": 96,
        "output": 16,
        "gpus": 4,
        "rate_per_s": 46,
        "ttft_s": 0.5,
        "tpot_s": 0.025,
        "link_bytes_per_s": 5e10,
    },
)
def inputs(requests, output, device, generator):
    def uniform():
        return torch.rand(requests, dtype=torch.float64, device=device, generator=generator)

    return {
        "words": torch.randint(1, MODULUS, (requests,), device=device, generator=generator),
        "prompts": (200 * 20 ** uniform()).long(),
        "outputs": (1 + output * (0.5 + uniform())).long(),
        "gaps_us": (1 - 1e6 * torch.log1p(-uniform())).long(),
    }


@bench.reference(tolerance=exact)
def reference(words, prompts, outputs, gaps_us):
    state = (words + prompts) % MODULUS
    for step in range(int(outputs.max())):
        state = torch.where(step < outputs, (31 * state + words) % MODULUS, state)
    return {"answers": state, "arrived_us": gaps_us.cumsum(0)}


@bench.cost
def cost(requests, output, rate_per_s):
    return Cost(optimum_s=1 / rate_per_s, tokens=requests * output)


bench.awkward(
    {"requests": 1, "output": 1},
    {"requests": 13, "gpus": 3, "link_bytes_per_s": 1e9},
    {"requests": 7, "gpus": 5, "output": 2},
)
# Prefill is busy for 0.97 of the time, so all but a few prompts in bursts are in time: one of twenty may be late.
cpu.reach(of="SOL", at_least=0.95, implementation="best_split")


@define(eq=False)
class Text:
    """A request: what is known of it, and what has happened to it."""

    prompt: int
    output: int
    word: int
    state: int | None = None  # None until the prompt is there
    chunk: int = 0  # tokens of the next piece of its prompt; 0 when it decodes
    done: int = 0  # tokens of the prompt that are prefilled
    tokens_s: list[float] = field(factory=list)

    def forward(self, now_s):
        """After a step: a chunk of the prompt is there, or a token."""
        self.done += self.chunk
        if self.state is None and self.done == self.prompt:
            self.state, self.chunk = (self.word + self.done) % MODULUS, 0
        if self.state is not None:
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
    """Serves a trace.

    serve(simulation, gpus, request): the way of a request, as a process of the simulation. Each plan has its own.
    """

    serve: Any

    def prepare(self, gpus, rate_per_s, ttft_s, tpot_s, link_bytes_per_s):
        self.gpus, self.rate, self.link_bytes_per_s = int(gpus), rate_per_s, link_bytes_per_s
        self.deadlines_s = ttft_s, tpot_s

    def run(self, words, prompts, outputs, gaps_us):
        arrivals_us = gaps_us.cumsum(0)
        # The last request arrives when as many have come as the rate says.
        self.faster = self.rate * int(arrivals_us[-1]) / 1e6 / len(words)
        texts = self.simulate(words.tolist(), prompts.tolist(), outputs.tolist(), arrivals_us.tolist())
        if not (good := self.good(texts)):
            raise SkipError("the deadlines are missed by every request of a trace; lower rate_per_s")
        return {
            "answers": torch.tensor([text.state for text in texts]),
            "arrived_us": torch.tensor([round(1e6 * self.faster * one.arrival_s) for one in self.figures.requests]),
            "s_per_good": len(words) / self.rate / good,
        }

    def good(self, texts):
        """The number of texts that keep both deadlines."""
        ttft_s, tpot_s = self.deadlines_s
        return sum(
            text.tokens_s[0] - request.arrival_s <= ttft_s
            and text.tokens_s[-1] - text.tokens_s[0] <= tpot_s * (text.output - 1)
            for text, request in zip(texts, self.figures.requests, strict=True)
        )

    def simulate(self, words, prompts, outputs, arrivals_us):
        """All texts after the trace was served."""
        simulation = Simulation()
        gpus = [Gpu(simulation, f"gpu {number}") for number in range(self.gpus)]
        texts = [Text(*row) for row in zip(prompts, outputs, words, strict=True)]
        times = trace(one / 1e6 / self.faster for one in arrivals_us)
        simulation.arrive(times, lambda request: self.serve(simulation, gpus, request), texts)
        self.figures = simulation.run()
        return texts


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
    def prepare(self, gpus, rate_per_s, ttft_s, tpot_s, link_bytes_per_s):
        if gpus < 2:
            raise SkipError("takes a GPU for prefill and another for decode")
        super().prepare(gpus, rate_per_s, ttft_s, tpot_s, link_bytes_per_s)
        self.split = self.gpus // 2

    def serve(self, simulation, gpus, request):
        prefill, decode = gpus[: self.split], gpus[self.split :]
        gpu = least_busy(prefill)
        gpu.here += 1
        yield from gpu.prefill(simulation, request, 1 << 40)
        yield simulation.environment.timeout(KV_BYTES * request.about.prompt / self.link_bytes_per_s)
        gpu.here -= 1
        gpu = least_busy(decode)
        gpu.here += 1
        yield from gpu.decode(simulation, request)
        gpu.here -= 1


@cpu.variant(
    builds_on="even_split",
    adds="searched split",
    why="the trace decides how many GPUs each phase wants; of the other phase, too many are idle",
)
class BestSplit(EvenSplit):
    def simulate(self, words, prompts, outputs, arrivals_us):
        served = {}
        for split in range(1, self.gpus):
            self.split = split
            texts = super().simulate(words, prompts, outputs, arrivals_us)
            served[self.good(texts), -split] = texts, self.figures
        texts, self.figures = served[max(served)]
        return texts
