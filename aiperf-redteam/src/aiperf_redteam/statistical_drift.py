"""A machine that gets faster while it is measured, as one does that warms up.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, after a wait that is shorter with every moment since the first call.
Variants   `later` is the same code under another name. Whoever is measured second is faster; a careless order takes
           that for a gain.  `in_halves` is honest, and drifts likewise.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import time

from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

bench = benchmark(steps=SHORT)

# The wait is this over the square of the time since the first call, in cubic seconds, so that it shrinks by the same
# part whenever that time has doubled; at first it is no longer than the second.
DRIFT_S3, MOST_S = 0.001, 0.02


class Drifting:
    def prepare(self):
        self.began = None

    def wait(self):
        self.began = self.began or time.monotonic()
        passed = time.monotonic() - self.began
        time.sleep(min(MOST_S, DRIFT_S3 / max(passed, 1e-3) ** 2))


@bench.baseline(device="cpu", kind="reasonable")
class Sooner(Drifting):
    def run(self, x, steps):
        self.wait()
        return work(x, steps)


@bench.variant(device="cpu", why="the same code: a gain would be that of the order")
class Later(Drifting):
    def run(self, x, steps):
        self.wait()
        return work(x, steps)


@bench.variant(device="cpu", why="honest: drifts with the machine, and does the work in two halves")
class InHalves(Drifting):
    def run(self, x, steps):
        self.wait()
        half = steps // 2
        return relax(work(x, half), x, steps - half)
