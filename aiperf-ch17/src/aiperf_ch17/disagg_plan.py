"""Planning a disaggregated deployment: a few simulations from a good start find what all of them would.

Question    How many simulated events does it take to plan 8 GPUs for a load that changes its mix?
Numbers     300 requests, 49 to 91 a second: long prompts and short texts, then the reverse. A plan has the GPUs that
            prefill in each half, the texts of a decode GPU, and whether a request that would be late is refused: 7 x 7
            x 5 x 2 = 490 plans of up to two events a request. A GPU that changes sides is gone for 0.5 s. An event is
            10 us of planning. Floor: an event a request. A seed draws the load. Right is a plan within 2 % of the best.
Prediction  All plans are 490 simulations. A choice at a time is 7 + 7 + 5 + 2 a sweep, less what is known: 490 / 21 to
            490 / 51. From the split and the texts that capacities give, neighbours are left, two on each side: 4 + 4 +
            4 + 1 and the start, 490 / 14, fewer where the start is at an end.
Limits      Choices that depend on each other: without refusals no split helps an overload, so sweeps from the middle
            end there. A load far below capacity (`rate_per_s=20`): all plans near the start are as good.
"""

import heapq
from typing import Any

import torch
from attrs import evolve, frozen

from aiperf_core import Benchmark, Cost, exact, lossy

bench = Benchmark(goal="latency", threads=1)
bench.simulated(metric="planning_s", seeds=20)
cpu = bench.on("cpu")

GPUS = 8
TEXTS = (16, 32, 64, 96, 128)
# The table of steps: a step reads the weights, in which it also computes, and the cache of each text.
WEIGHTS_S, TOKENS_PER_S, TEXT_S = 0.015, 20_000, 0.00015
TTFT_S, TPOT_S, FLIP_S = 0.5, 0.03, 0.5
EVENT_S = 1e-5
NEAR = 0.98  # of the good requests of the best plan
MODULUS = 1_000_003
# Prompt and output tokens in each half, before a spread of four times.
MIXES = ((2000, 60), (500, 240))


@frozen
class Plan:
    """A plan: prefill GPUs of the first and the second half, texts of a decode GPU, refusal of what would be late."""

    first: int
    second: int
    texts: int
    refuses: bool


CHOICES: dict[str, tuple[Any, ...]] = {
    "first": tuple(range(1, GPUS)),
    "second": tuple(range(1, GPUS)),
    "texts": TEXTS,
    "refuses": (False, True),
}


def step_s(texts):
    """The seconds of a step of decoding."""
    return max(WEIGHTS_S, texts / TOKENS_PER_S) + TEXT_S * texts


def flipped(busy, more, each, now_s):
    """A pool after GPUs came or went: `each` servers a GPU, those that are free first go first."""
    for _ in range(max(0, -more) * each):
        heapq.heappop(busy)
    for _ in range(max(0, more) * each):
        heapq.heappush(busy, now_s + FLIP_S)


def simulated(requests, plan):
    """The requests that keep both deadlines under a plan, and the number of events."""
    prefill = [0.0] * plan.first
    decode = [0.0] * ((GPUS - plan.first) * plan.texts)
    good = events = 0
    token_s = step_s(plan.texts)
    for number, (arrival_s, prompt, output) in enumerate(requests):
        if 2 * number // len(requests) != 2 * (number - 1) // len(requests) and number:
            more = plan.second - plan.first
            flipped(prefill, more, 1, arrival_s)
            flipped(decode, -more, plan.texts, arrival_s)
        events += 1
        first_s = max(arrival_s, prefill[0]) + max(WEIGHTS_S, prompt / TOKENS_PER_S)
        in_time = first_s - arrival_s <= TTFT_S
        if plan.refuses and not in_time:
            continue
        heapq.heapreplace(prefill, first_s)
        events += 1
        end_s = max(first_s, decode[0]) + output * token_s
        heapq.heapreplace(decode, end_s)
        good += in_time and end_s - first_s <= TPOT_S * output
    return good, events


def all_plans():
    """Every plan."""
    return [
        Plan(first, second, texts, refuses)
        for first in CHOICES["first"]
        for second in CHOICES["second"]
        for texts in TEXTS
        for refuses in CHOICES["refuses"]
    ]


def listed(arrivals_s, prompts, outputs):
    return [*zip(arrivals_s.tolist(), prompts.tolist(), outputs.tolist(), strict=True)]


@bench.workload(smoke={"requests": 16, "rate_per_s": 70}, cpu={"requests": 300, "rate_per_s": 70})
def inputs(requests, rate_per_s, device, generator):
    def uniform(count):
        return torch.rand(count, dtype=torch.float64, device=device, generator=generator)

    half = torch.arange(requests, device=device) * 2 // requests
    mixes = torch.tensor(MIXES, dtype=torch.float64, device=device)[half]
    rate = rate_per_s * (0.7 + 0.6 * uniform(1))
    load = {
        "arrivals_s": (-torch.log1p(-uniform(requests)) / rate).cumsum(0),
        "prompts": (mixes[:, 0] * 4 ** (uniform(requests) - 0.5)).ceil(),
        "outputs": (mixes[:, 1] * 4 ** (uniform(requests) - 0.5)).ceil(),
    }
    best = max(simulated(listed(**load), plan)[0] for plan in all_plans())
    # For the verdict on a plan; no search reads it.
    words = torch.randint(1, MODULUS, (requests,), device=device, generator=generator)
    return {**load, "words": words, "best": torch.tensor([best], device=device)}


def answered(words, good):
    """An answer for each of the first requests, as many as are good."""
    return torch.where(torch.arange(len(words), device=words.device) < good, (31 * words + 7) % MODULUS, 0)


@bench.reference(tolerance=exact)
def reference(words, best):
    return {"answers": answered(words, best)}


@bench.metric
def lost(output, reference):
    """The share of the best plan's good requests that a plan does not serve."""
    wanted = reference["answers"] != 0
    return float((output["answers"][wanted] != reference["answers"][wanted]).double().sum() / max(1, int(wanted.sum())))


@bench.cost
def cost(requests):
    return Cost(optimum_s=requests * EVENT_S, tokens=requests)


bench.awkward({"requests": 1}, {"requests": 2}, {"requests": 13, "rate_per_s": 400})
cpu.reach(of="time:exhaustive", at_most=1 / 15, implementation="from_capacities")


class Planner:
    """Finds a plan for a load. search(): each implementation has its own."""

    search: Any

    def run(self, arrivals_s, prompts, outputs, words, best):
        self.requests = listed(arrivals_s, prompts, outputs)
        self.known = dict[Plan, int]()
        self.events = 0
        self.search()
        # Near the best is as good: loads are not known better.
        good = min(int(best), int(max(self.known.values()) / NEAR))
        return {"answers": answered(words, good), "planning_s": self.events * EVENT_S}

    def good(self, plan):
        """The good requests of a plan, simulated the first time."""
        if plan not in self.known:
            self.known[plan], events = simulated(self.requests, plan)
            self.events += events
        return self.known[plan]


@cpu.baseline(kind="naive")
class Exhaustive(Planner):
    def search(self):
        for plan in all_plans():
            self.good(plan)


@cpu.variant(
    adds="a choice at a time",
    why="of one choice all values are tried, the others held, until a sweep of all choices changes nothing",
    predict="9 to 24x: 490 plans beside one to two and a half sweeps of 21",
    lossy=lossy("lost", at_most=0.2),
)
class Sweeps(Planner):
    def start(self):
        return Plan(GPUS // 2, GPUS // 2, TEXTS[len(TEXTS) // 2], refuses=False)

    def values(self, name, plan):
        return CHOICES[name]

    def search(self):
        best, before = self.start(), None
        while best != before:
            before = best
            for name in CHOICES:
                tried = [best, *(evolve(best, **{name: value}) for value in self.values(name, best))]
                best = max(tried, key=self.good)


@cpu.variant(
    builds_on="sweeps",
    adds="a start by capacities",
    why="tokens of each phase by what a GPU does of them give the split, the deadline the texts; neighbours are left",
    predict="1.4 to 4x: some 14 plans beside 21 to 51",
)
class FromCapacities(Sweeps):
    def start(self):
        texts = max([one for one in TEXTS if step_s(one) <= TPOT_S], default=TEXTS[0])
        splits: list[int] = []
        for half in (self.requests[: -(-len(self.requests) // 2)], self.requests[len(self.requests) // 2 :]):
            prefill_s = sum(prompt for _, prompt, _ in half) / TOKENS_PER_S
            decode_s = sum(output for _, _, output in half) * step_s(texts) / texts
            splits.append(min(GPUS - 1, max(1, round(GPUS * prefill_s / (prefill_s + decode_s)))))
        return Plan(splits[0], splits[1], texts, refuses=True)

    def values(self, name, plan):
        at = CHOICES[name].index(getattr(plan, name))
        return CHOICES[name][max(0, at - 2) : at + 3]
