"""Controlling the batch: how many texts fit into a step's deadline changes with what they hold.

Question    How many texts may decode together, if a step must not take longer than `deadline_s`, and contexts change?
Numbers     An engine with enough texts. A step takes max(15 ms, texts / 20000 s) and 0.15 us for each token of context.
            Contexts are 500, 4,000 and 1,500 tokens in turns, eight times, and up to a fifth longer; delays add 1 % on
            average. Tokens of a step beyond 25 ms are late, and no good; each phase ends with 5,000 good ones. Floor:
            133, 16 and 44 texts, the most with the shortest contexts: 8 x (0.94 + 7.7 + 2.8) = 91.6 s.
Prediction  13 texts keep the deadline in all phases, and take 8 x (6.3 + 9.3 + 7.1) = 181 s and delays, twice the
            floor. A controller that follows the contexts takes 1.1 times the floor, their fifth, a margin for delays,
            and the steps that it loses when a phase begins.
Limits      Contexts of one length: a fixed batch is best. Long delays (`delay=0.1`): a margin for all of them costs
            more than the late steps with which `aimd` finds one.
"""

from typing import Any

import torch

from aiperf_ch19.steps import CONTEXT_S, TOKENS_PER_S, WEIGHTS_S, step_s
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError

bench = Benchmark(goal="throughput", threads=1)
bench.simulated(metric="serving_s", seeds=20)
cpu = bench.on("cpu")

CONTEXTS, LONGER = (500, 4000, 1500) * 8, 0.2
MOST = 512  # texts
CHANGES = 4096  # steps until the contexts repeat
MODULUS = 1_000_003


@bench.workload(
    smoke={"good": 200, "deadline_s": 0.025, "delay": 0.01}, cpu={"good": 5_000, "deadline_s": 0.025, "delay": 0.01}
)
def inputs(device, generator):
    def uniform(count):
        return torch.rand(count, dtype=torch.float64, device=device, generator=generator)

    # A walk between 0 and 1: what is beyond turns back.
    walk = (0.1 * (uniform(CHANGES) - 0.5)).cumsum(0) % 2
    return {
        "words": torch.randint(MODULUS, (len(CONTEXTS),), device=device, generator=generator),
        "longer": 1 + LONGER * (1 - (walk - 1).abs()),
        "late": -torch.log1p(-uniform(CHANGES)),
    }


@bench.reference(tolerance=exact)
def reference(words):
    return {"answers": (31 * words + 7) % MODULUS}


def fitting(context, limit_s):
    """The most texts, at least one, whose step takes no longer than a limit."""
    by_reading = (limit_s - WEIGHTS_S) / (context * CONTEXT_S)
    by_computing = limit_s / (1 / TOKENS_PER_S + context * CONTEXT_S)
    # A rounded quotient may be one too many.
    most = max(1, min(MOST, int(min(by_reading, by_computing) + 1e-9)))
    return most if most == 1 or step_s(most, context) <= limit_s else most - 1


@bench.cost
def cost(good, deadline_s):
    batches = [fitting(context, deadline_s) for context in CONTEXTS]
    phases_s = (good / texts * step_s(texts, context) for texts, context in zip(batches, CONTEXTS, strict=True))
    return Cost(optimum_s=sum(phases_s), tokens=len(CONTEXTS) * good)


bench.awkward({"good": 1}, {"good": 331, "deadline_s": 0.1}, {"good": 331, "delay": 0.1})
cpu.reach(of="time:clairvoyant", at_most=1.08, implementation="modelled")


class Engine:
    """Decodes until each phase has its good tokens.

    follow(texts, seconds): the batch after a step; each controller has its own.
    """

    follow: Any

    def prepare(self, good, deadline_s, delay):
        self.good, self.deadline_s, self.delay = good, deadline_s, delay
        self.safe_s = deadline_s / (1 + 3 * delay)
        self.longest = max(CONTEXTS) * (1 + LONGER)
        if step_s(1, self.longest) > self.safe_s:
            raise SkipError(f"a step of one text takes {1e3 * step_s(1, self.longest):.1f} ms; raise deadline_s")

    def run(self, words, longer, late):
        self.texts: float = fitting(self.longest, self.safe_s)
        changes = [*zip(longer.tolist(), late.tolist(), strict=True)]
        spent_s, steps, answers = 0.0, 0, []
        for context, word in zip(CONTEXTS, words.tolist(), strict=True):
            good = 0
            while good < self.good:
                factor, delayed = changes[steps % CHANGES]
                self.context = factor * context
                texts = max(1, min(MOST, int(self.texts)))
                seconds = step_s(texts, self.context) * (1 + self.delay * delayed)
                spent_s += seconds
                steps += 1
                if seconds <= self.deadline_s:
                    good += texts
                self.texts = self.follow(texts, seconds)
            answers.append((31 * word + 7) % MODULUS)
        return {"answers": torch.tensor(answers), "serving_s": spent_s}


@cpu.baseline(kind="reasonable")
class Fixed(Engine):
    def follow(self, texts, seconds):
        return texts


@cpu.variant(
    adds="additive increase",
    why="each step in time lets one more text in, and each late one sends a fifth away",
    predict="1.2 to 1.6x: 2 times the floor, beside batches between four fifths and all of what fits",
)
class Aimd(Engine):
    def follow(self, texts, seconds):
        return texts + 1 if seconds <= self.deadline_s else 0.8 * texts


@cpu.variant(
    adds="a controller on the slack",
    why="the batch changes in proportion to what is left of the deadline, so it comes near and seldom passes it",
    predict="1.5 to 1.8x: 2 times the floor, beside 1.1 times and the steps in which it comes near",
)
class Pid(Engine):
    def prepare(self, good, deadline_s, delay):
        super().prepare(good, deadline_s, delay)
        self.before = 0.0

    def follow(self, texts, seconds):
        slack = 1 - seconds / self.safe_s
        change = 0.5 * slack + 0.2 * (slack - self.before)
        self.before = slack
        return max(1.0, self.texts * (1 + change))


@cpu.variant(
    adds="a table of step times",
    why="a step tells the contexts that it read, and the table says at once how many texts fit with these",
    predict="1.6 to 1.8x: 2 times the floor, beside 1.1 times and a step or two of a phase",
)
class Modelled(Engine):
    def follow(self, texts, seconds):
        known_s = seconds / (1 + self.delay)
        context = max(1.0, (known_s - max(WEIGHTS_S, texts / TOKENS_PER_S)) / (texts * CONTEXT_S))
        return fitting(context, self.safe_s)


@cpu.yardstick(why="the contexts of each step, known before it")
class Clairvoyant(Engine):
    def run(self, words, longer, late):
        self.next = 0
        self.longer = longer.tolist()
        return super().run(words, longer, late)

    def follow(self, texts, seconds):
        self.next += 1
        phase_context = self.context / self.longer[(self.next - 1) % CHANGES]
        return fitting(phase_context * self.longer[self.next % CHANGES], self.safe_s)
