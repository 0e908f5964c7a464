"""Code that is another one when it takes turns with others.

Workload   A damped iteration, see `relaxation`, and a wait.
Baseline   Step by step, after the wait.
Variants   `rested` waits twice as long unless others were busy since its last call, as code is slower that finds the
           heat, the caches or the context of its own calls.  `in_halves` is the same to all.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import time

from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

bench = benchmark(steps=SHORT)

# A call's wait, and what lies between two calls of one who is alone at most, in seconds.
WAIT_S, ALONE_S = 0.06, 0.045


@bench.baseline(device="cpu", kind="reasonable")
def waiting(x, steps):
    time.sleep(WAIT_S)
    return work(x, steps)


@bench.variant(device="cpu", why="quick after a rest, which taking turns gives it and being alone does not")
class Rested:
    def prepare(self):
        self.ended = 0.0

    def run(self, x, steps):
        alone = time.monotonic() - self.ended < ALONE_S
        time.sleep(2 * WAIT_S if alone else WAIT_S)
        out = work(x, steps)
        self.ended = time.monotonic()
        return out


@bench.variant(device="cpu", why="honest: takes as long whoever was there before, in two halves")
def in_halves(x, steps):
    time.sleep(WAIT_S)
    half = steps // 2
    return relax(work(x, half), x, steps - half)
