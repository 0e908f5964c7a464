"""Searching tiles: a model of the costs, fitted to the trials, finds in tens what chance finds in hundreds.

Question    How long does a search compile and measure until it has a configuration within 10 % of the best?
Numbers     Three spaces of 5,574 tiles of a matrix product each, with modelled times of which 8 % follow no rule. 13, 3
            and 8 configurations are within 10 % of the best. A trial compiles 2 s and measures 1 s, with an error of 3
            %. Floor: one trial a search, 3 s. A seed draws four searches of each space, the same for all.
Prediction  Chance takes (5574 + 1) / (13 + 1) + 5575 / 4 + 5575 / 9 = 2,411 trials on average. A model of 6 terms takes
            some 20 a space to fit, and as many to get past what no term explains: 10 to 40 times fewer.
Limits      Shorter measurements of most candidates save of the 1 s, and nothing of the 2 s of a compiler. Where nothing
            is known of the costs, a model of the axes has little to fit, and a climb ends in one of many valleys.
"""

import numpy as np
import torch

from aiperf_ch20.spaces import space
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", threads=1)
bench.simulated(metric="search_s", seeds=40)
cpu = bench.on("cpu")

SHAPES = ((4096, 4096, 4096), (16, 8192, 8192), (1000, 1000, 1000))
NEAR = 1.1  # of the time of the best configuration
ERROR = 0.03  # of a measurement of full length
BATCH = 64  # candidates that halving begins with
FIRST, EACH = 24, 4  # trials before a model is fitted, and between two fits
MODULUS = 1_000_003


@bench.workload(
    smoke={"spaces": 1, "searches": 1, "compile_s": 2.0, "measure_s": 1.0},
    cpu={"spaces": 3, "searches": 4, "compile_s": 2.0, "measure_s": 1.0},
)
def inputs(spaces, searches, device, generator):
    return {"seeds": torch.randint(MODULUS, (spaces, searches), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(seeds):
    return {"found": (31 * seeds + 7) % MODULUS}


@bench.cost
def cost(spaces, searches, compile_s, measure_s):
    return Cost(optimum_s=spaces * searches * (compile_s + measure_s), tokens=spaces * searches)


bench.awkward({"spaces": 2, "compile_s": 0.0}, {"spaces": 3, "searches": 2, "measure_s": 0.1})
# 2,411 trials by chance, beside 3 x 80 at most.
cpu.reach(of="time:by_chance", at_most=0.1, implementation="cost_model")


class Found(Exception):
    """A configuration near the best is the best that a search has measured."""


class Trials:
    """The trials of one search in a space: what they took, and the best of them by their measurements."""

    def __init__(self, space, compile_s, measure_s, seed):
        self.space, self.compile_s, self.measure_s = space, compile_s, measure_s
        self.draw = np.random.default_rng(seed)
        self.near_s = NEAR * space.times_s.min()
        self.spent_s, self.known = 0.0, {}

    def measure(self, at, share=1.0):
        """Measure a configuration for a share of the whole length; compile it the first time. Its time, in seconds."""
        if at not in self.known:
            self.spent_s += self.compile_s
        self.spent_s += self.measure_s * share
        time_s = self.space.times_s[at]
        self.known[at] = time_s * np.exp(ERROR / np.sqrt(share) * self.draw.standard_normal())
        if time_s <= self.near_s and self.known[at] <= min(self.known.values()):
            raise Found
        return self.known[at]

    def shuffled(self):
        """All configurations that are not measured yet, in random order."""
        return [at for at in self.draw.permutation(len(self.space.times_s)).tolist() if at not in self.known]


class Search:
    """Searches each space until it is near the best. search(trials): each implementation has its own."""

    def prepare(self, spaces, compile_s, measure_s):
        self.spaces = [space(*shape, draw) for draw, shape in enumerate(SHAPES[: int(spaces)])]
        self.seconds = compile_s, measure_s

    def run(self, seeds):
        found, spent_s = [], 0.0
        for one, row in zip(self.spaces, seeds.tolist(), strict=True):
            for seed in row:
                trials = Trials(one, *self.seconds, seed)
                try:
                    self.search(trials)
                    found.append(-1)
                except Found:
                    found.append((31 * seed + 7) % MODULUS)
                spent_s += trials.spent_s
        return {"found": torch.tensor(found).reshape(seeds.shape), "search_s": spent_s}

    def search(self, trials):
        """Measure until `Found`. A search that has no idea left goes on at random."""
        while rest := trials.shuffled():
            for at in rest:
                trials.measure(at)


@cpu.baseline(kind="naive")
class ByChance(Search):
    pass


@cpu.variant(
    adds="successive halving",
    why="most candidates are measured for a sixteenth of the time, and only the best quarter for longer",
    predict="0.9 to 1.5x: (2 + 1) / (2 + 1/16 + 1/4 x 1/4 + 1/16) = 1.4 for a trial",
)
class Halving(Search):
    def search(self, trials):
        while rest := trials.shuffled()[:BATCH]:
            for share in (1 / 16, 1 / 4, 1.0):
                times_s = {at: trials.measure(at, share) for at in rest}
                rest = sorted(rest, key=times_s.__getitem__)[: -(-len(rest) // 4)]
        super().search(trials)


@cpu.variant(
    adds="hill climbing",
    why="a neighbour of a good configuration is better than one at random, until none of them is better",
)
class Climbing(Search):
    def search(self, trials):
        while rest := trials.shuffled():
            at, best_s = rest[0], trials.measure(rest[0])
            steps = iter(trials.draw.permutation(trials.space.neighbours(at)).tolist())
            while (step := next(steps, None)) is not None:
                if step not in trials.known and (time_s := trials.measure(step)) < best_s:
                    best_s = time_s
                    steps = iter(trials.draw.permutation(trials.space.neighbours(step)).tolist())


@cpu.variant(
    name="axis_model",
    adds="a fitted model",
    why="each trial says something of all configurations, and the next ones are those that a fit expects to be best",
)
class Fitted(Search):
    def features(self, space):
        places = space.places / space.places.max(0)
        pairs = [places[:, i] * places[:, j] for i in range(places.shape[1]) for j in range(i + 1)]
        return np.column_stack([np.ones(len(places)), places, *pairs])

    def search(self, trials):
        features = self.features(trials.space)
        for at in trials.shuffled()[:FIRST]:
            trials.measure(at)
        while len(trials.known) < len(features):
            tried = list(trials.known)
            rows, logs = features[tried], np.log([trials.known[at] for at in tried])
            # Ridge regression; few trials have fewer rows than features.
            fit = np.linalg.solve(rows.T @ rows + 1e-2 * np.eye(rows.shape[1]), rows.T @ logs)
            expected = features @ fit
            expected[tried] = np.inf
            for at in np.argsort(expected)[:EACH].tolist():
                if at not in trials.known:
                    trials.measure(at)


@cpu.variant(
    builds_on="axis_model",
    adds="terms of cost",
    why="padding, waves, reuse and traffic are known without a trial, and times are nearly their products",
)
class CostModel(Fitted):
    def features(self, space):
        return np.column_stack([np.ones(len(space.terms)), space.terms])
