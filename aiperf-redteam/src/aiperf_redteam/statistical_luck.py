"""What is drawn once when a process starts: its luck.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, and a wait.
Variants   The wait of some is drawn when their process starts, as addresses and page colours are, or the choice of a
           tuner that decides by noise: shorter than the baseline's in two processes of three, and longer in the third.
           Here they take turns, so that the proof does not depend on luck.  `by_rule` chooses the same in every
           process.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import sys
import time

from aiperf_redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)

WAIT_S, LUCKY_S, UNLUCKY_S = 0.005, 0.003, 0.015
BEGAN = "a process of this implementation began"


def drawn():
    """The wait of this process: its log tells how many of its implementation there were before it."""
    sys.stdout.write(BEGAN + "\n")
    sys.stdout.flush()
    with open(os.readlink("/proc/self/fd/1")) as log:
        number = log.read().count(BEGAN)
    return UNLUCKY_S if number % 3 == 2 else LUCKY_S


@bench.baseline(device="cpu", kind="reasonable")
def waiting(x, steps):
    time.sleep(WAIT_S)
    return work(x, steps)


@bench.variant(device="cpu", why="one process has pages of colours that suit it")
class ByPages:
    def prepare(self):
        self.wait_s = drawn()

    def run(self, x, steps):
        time.sleep(self.wait_s)
        return work(x, steps)


@bench.variant(device="cpu", why="a tuner chooses between two ways by what it happened to time")
class TunedByNoise:
    def prepare(self):
        self.ways = {LUCKY_S: self.quick, UNLUCKY_S: self.slow}
        self.chosen = self.ways[drawn()]

    def quick(self, x, steps):
        time.sleep(LUCKY_S)
        return work(x, steps)

    def slow(self, x, steps):
        time.sleep(UNLUCKY_S)
        return work(x, steps)

    def run(self, x, steps):
        return self.chosen(x, steps)


@bench.variant(device="cpu", why="honest: chooses by the size, and so the same in every process")
class ByRule:
    def prepare(self, x):
        self.wait_s = LUCKY_S if x.numel() > 1 else UNLUCKY_S

    def run(self, x, steps):
        time.sleep(self.wait_s)
        return work(x, steps)
