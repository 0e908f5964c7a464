"""Tuning while serving: each decision serves and tells something, and what it tells is forgotten when the load changes.

Question    How much time does a tuner lose that must try settings to know them, while the best one changes?
Numbers     8 settings, 0 to 7 guesses of a draft model, in three regimes of 1,500 decisions: 4 texts whose guesses are
            right 19 times of 20, 512 with 3 of 10, 24 with 4 of 5. A decision serves what the best setting serves in 1
            s; delays add 5 % on average, and hide small differences. Floor: 4,500 s, the best settings without delays.
Prediction  Two guesses take (1.56 + 1.13 + 1.20) / 3 = 1.30 of the best settings' time. A tuner that keeps all it has
            seen starts each regime with the wrong sums. One that forgets after 200 decisions tries 7 others some twice
            in that time, each half as long again: 7 x 2 / 200 x 0.5 = 3.5 % of regret.
Limits      Regimes shorter than what is remembered (`decisions=100`): no tuner knows one before it ends. A single
            regime: forgetting is then a price without a gain.
"""

import random
from collections import deque
from math import log, sqrt
from typing import Any

import torch

from aiperf_ch19.steps import step_s, tokens
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", threads=1)
bench.simulated(metric="serving_s", seeds=20)
cpu = bench.on("cpu")

ARMS = tuple(range(8))  # guesses
REGIMES = ((4, 0.95), (512, 0.3), (24, 0.8))  # texts, and the probability that a guess is right
USUAL = 2
DELAY = 0.05  # of a decision, on average
MEMORY = 200  # decisions
MODULUS = 1_000_003


@bench.workload(smoke={"decisions": 31}, cpu={"decisions": 1500})
def inputs(decisions, device, generator):
    count = len(REGIMES) * decisions
    uniform = torch.rand(count, len(ARMS), dtype=torch.float64, device=device, generator=generator)
    return {
        "words": torch.randint(MODULUS, (count,), device=device, generator=generator),
        "delays": -DELAY * torch.log1p(-uniform),
    }


@bench.reference(tolerance=exact)
def reference(words):
    return {"answers": (31 * words + 7) % MODULUS}


def token_s(regime, arm):
    """The seconds for a token of each text, by a setting."""
    texts, accepted = REGIMES[regime]
    return step_s(texts, guesses=arm) / tokens(arm, accepted)


# A decision serves what the best setting serves in a second.
DECISION_S = [
    [token_s(regime, arm) / min(token_s(regime, one) for one in ARMS) for arm in ARMS] for regime in (0, 1, 2)
]


@bench.cost
def cost(decisions):
    return Cost(optimum_s=len(REGIMES) * decisions * 1.0, tokens=len(REGIMES) * decisions)


bench.awkward({"decisions": 1}, {"decisions": 7}, {"decisions": 211})
cpu.reach(of="time:clairvoyant", at_most=1.08, implementation="windowed")


class Tuner:
    """Serves all decisions. choose(now): the setting of a decision; note(arm, seconds): what it took."""

    choose: Any

    def run(self, words, delays):
        self.draw = random.Random(1)
        self.begin()
        spent_s, answers, each = 0.0, [], len(words) // len(REGIMES)
        for now, (word, late) in enumerate(zip(words.tolist(), delays.tolist(), strict=True)):
            self.regime = now // each
            arm = self.choose(now)
            seconds = DECISION_S[self.regime][arm] * (1 + late[arm])
            spent_s += seconds
            self.note(arm, seconds)
            answers.append((31 * word + 7) % MODULUS)
        return {"answers": torch.tensor(answers), "serving_s": spent_s}

    def begin(self):
        """Called once for all decisions."""
        self.counts = [0] * len(ARMS)
        self.sums = [0.0] * len(ARMS)
        self.squares = [0.0] * len(ARMS)

    def note(self, arm, seconds, times=1):
        """Remember a time; forget one with `times=-1`."""
        self.counts[arm] += times
        self.sums[arm] += times * seconds
        self.squares[arm] += times * seconds * seconds

    def mean_s(self, arm):
        return self.sums[arm] / self.counts[arm]

    def spread_s(self):
        """The standard deviation of a time about the mean of its setting."""
        seen = [arm for arm in ARMS if self.counts[arm]]
        apart = sum(self.squares[arm] - self.sums[arm] ** 2 / self.counts[arm] for arm in seen)
        return sqrt(max(0.0, apart) / max(1, sum(self.counts) - len(seen)))


@cpu.baseline(kind="reasonable")
class Usual(Tuner):
    def choose(self, now):
        return USUAL


class Learning(Tuner):
    """Tries each setting once, then that of the least `index(arm, now, spread_s)`."""

    index: Any

    def choose(self, now):
        for arm in ARMS:
            if not self.counts[arm]:
                return arm
        spread_s = self.spread_s()
        return min(ARMS, key=lambda arm: self.index(arm, now, spread_s))


@cpu.variant(
    adds="epsilon-greedy", why="a tenth of the decisions try a setting at random, the others take the best mean"
)
class EpsilonGreedy(Learning):
    def choose(self, now):
        return self.draw.choice(ARMS) if self.draw.random() < 0.1 else super().choose(now)

    def index(self, arm, now, spread_s):
        return self.mean_s(arm)


@cpu.variant(
    name="ucb1",
    adds="confidence bounds",
    why="a setting is tried as long as its time may be the least, by how often it was tried",
)
class Bounds(Learning):
    def index(self, arm, now, spread_s):
        return self.mean_s(arm) - spread_s * sqrt(2 * log(1 + now) / self.counts[arm])


@cpu.variant(
    adds="thompson sampling",
    why="a setting is tried as often as it is likely to be the best, by what was seen of all",
)
class Thompson(Learning):
    def index(self, arm, now, spread_s):
        return self.draw.gauss(self.mean_s(arm), spread_s / sqrt(self.counts[arm]))


@cpu.variant(
    builds_on="thompson",
    adds="a window",
    why="what is older than the window belongs to another load, and is forgotten",
    predict="1.01 to 1.3x: what the sums of other regimes cost, less 3.5 % for trying again",
)
class Windowed(Thompson):
    def begin(self):
        super().begin()
        self.seen = deque[tuple[int, float]]()

    def note(self, arm, seconds, times=1):
        super().note(arm, seconds)
        self.seen.append((arm, seconds))
        if len(self.seen) > MEMORY:
            super().note(*self.seen.popleft(), times=-1)


@cpu.yardstick(why="the best setting of each regime, known beforehand")
class Clairvoyant(Tuner):
    def choose(self, now):
        return min(ARMS, key=DECISION_S[self.regime].__getitem__)
