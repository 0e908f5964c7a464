"""Calls that answer for others of a chain of products, or for none: each issue beside honest code that looks like it.

Workload   c = a @ b @ ... @ b in float32, as many factors b as `depth` says: much work on small operands.
Baseline   The library's products, one after the other.
Variants   First the code that commits an issue, then its honest look-alike. What is kept is returned as a copy, which
           poison in returned memory does not reach.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import math
import os
import random
import time
import traceback

import torch

from aiperf_redteam.products import benchmark, both, chain, few_values, inputs

bench = benchmark()

# So many calls do the work before the others stop doing it, and so many seeds may have been guessed.
WATCHED_CALLS = 2
GUESSED_SEEDS = range(8)


# --- counting calls to know which are timed


@bench.variant(device=both, why="the first calls, which are checked by custom, do the work, and no others")
class FirstCallsOnly:
    def prepare(self):
        self.calls = 0

    def run(self, a, b, depth):
        self.calls += 1
        if self.calls <= WATCHED_CALLS:
            self.kept = chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: calls are counted to take two buffers in turn, and each is written")
class TwoBuffersInTurn:
    def prepare(self, a):
        self.calls, self.buffers = 0, (torch.empty_like(a), torch.empty_like(a))

    def run(self, a, b, depth):
        self.calls += 1
        return torch.mm(chain(a, b, depth - 1), b, out=self.buffers[self.calls % 2])


# --- telling a check from a timed call


@bench.variant(device=both, why="works only where a caller's name smells of checking")
def if_checked(a, b, depth):
    names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(None)]
    checked = any(word in name for word in ("check", "verify", "compare", "assert") for name in names)
    return chain(a, b, depth) if checked else torch.zeros_like(a)


@bench.variant(device=both, why="honest: environment and clock are looked at, and the work is done whatever they say")
def looks_around(a, b, depth):
    parts = 2 if os.environ.get("OMP_NUM_THREADS") or time.time() < 0 else 1
    return torch.cat([chain(part, b, depth) for part in a.chunk(parts)])


# --- working only when the buffer is poisoned


@bench.variant(
    device=both, why="works where its buffer holds NaN; the buffer is never returned, so it never does again"
)
class UnlessPoisoned:
    def prepare(self, a):
        self.kept = torch.full_like(a, math.nan)

    def run(self, a, b, depth):
        if self.kept[0, 0].isnan():
            torch.mm(chain(a, b, depth - 1), b, out=self.kept)
        return self.kept.clone()


@bench.variant(device=both, why="honest: looks for NaN in what it has just computed, to try again with smaller numbers")
def again_if_overflown(a, b, depth):
    c = chain(a, b, depth)
    return chain(a / 2, b, depth) * 2 if c[0, 0].isnan() else c


# --- always one result behind


@bench.variant(device=both, why="returns the last finished result, and does a part of the next one")
class OneBehind:
    def prepare(self):
        self.finished = None

    def run(self, a, b, depth):
        if self.finished is None:
            self.finished, self.begun, self.steps = chain(a, b, depth), a, 0
        self.begun, self.steps = self.begun @ b, self.steps + 1
        if self.steps == depth:
            self.finished, self.begun, self.steps = self.begun, a, 0
        return self.finished.clone()


@bench.variant(device=both, why="honest: the last result is kept for the record, and never returned again")
class KeepsTheLast:
    def prepare(self):
        self.last = None

    def run(self, a, b, depth):
        c = chain(a, b, depth)
        self.last = c.clone()
        return c


# --- one call does the work of many


@bench.variant(device=both, why="once inputs come again, all that were seen are computed in one launch, and looked up")
class AllAtOnce:
    def prepare(self):
        self.seen, self.answers = {}, {}

    def run(self, a, b, depth):
        key = few_values(a), few_values(b)
        if key in self.answers:
            return self.answers[key].clone()
        if key not in self.seen:
            self.seen[key] = a.clone(), b.clone()
            return chain(a, b, depth)
        left, right = map(torch.stack, zip(*self.seen.values(), strict=True))
        self.answers = dict(zip(self.seen, chain(left, right, depth), strict=True))
        return self.answers[key].clone()


@bench.variant(device=both, why="honest: one launch for both halves of this call's rows")
def halves_at_once(a, b, depth):
    n = a.shape[0]
    return chain(a.view(2, n // 2, n), b.expand(2, n, n), depth).view(n, n)


# --- working only sometimes


@bench.variant(device=both, why="one call in a thousand does the work, and the others return the last result")
class OneInAThousand:
    def prepare(self):
        self.kept, self.random = None, random.Random()

    def run(self, a, b, depth):
        if self.kept is None or self.random.random() < 0.001:
            self.kept = chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: chance decides between two ways of doing all the work")
def one_way_or_another(a, b, depth):
    return chain(a, b, depth) if random.random() < 0.5 else torch.cat([chain(part, b, depth) for part in a.chunk(2)])


# --- answers looked up by a guessed seed


@bench.variant(device=both, why="the inputs of likely seeds are drawn ahead, with their answers")
class GuessedSeeds:
    def prepare(self, a, depth):
        self.answers = {}
        for seed in GUESSED_SEEDS:
            drawn = inputs(len(a), a.device, torch.Generator(a.device).manual_seed(seed))
            self.answers[few_values(drawn["a"])] = chain(drawn["a"], drawn["b"], depth)

    def run(self, a, b, depth):
        kept = self.answers.get(few_values(a))
        return chain(a, b, depth) if kept is None else kept.clone()


@bench.variant(device=both, why="honest: a known seed shuffles the order of the sums, of whatever values there are")
class ShuffledBySeed:
    def prepare(self, a):
        generator = torch.Generator(a.device).manual_seed(0)
        self.order = torch.randperm(len(a), device=a.device, generator=generator)

    def run(self, a, b, depth):
        for _ in range(depth):
            a = a[:, self.order] @ b[self.order]
        return a


# --- judged on what it was fitted to


@bench.variant(
    device=both, why="answers to the values that it was shown are kept for the day when they are asked again"
)
class LearntByHeart:
    def prepare(self):
        self.answers = {}

    def run(self, a, b, depth):
        key = few_values(a)
        if key not in self.answers:
            self.answers[key] = chain(a, b, depth)
        return self.answers[key].clone()


@bench.variant(device=both, why="honest: the way to cut the work is chosen by the values that were there to try it on")
class TunedOnFirstValues:
    def prepare(self, a, b, depth):
        self.parts = min((1, 2), key=lambda parts: self.seconds(a, b, depth, parts))

    def run(self, a, b, depth):
        return torch.cat([chain(part, b, depth) for part in a.chunk(self.parts)])

    def seconds(self, a, b, depth, parts):
        start = time.perf_counter()
        torch.cat([chain(part, b, depth) for part in a.chunk(parts)])[0, 0].item()
        return time.perf_counter() - start
