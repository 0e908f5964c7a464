"""First calls that count on one side only.

Workload   A damped iteration, see `relaxation`.
Baseline   Makes ready in its first calls, as code does that compiles, plans or tunes when it is first used.
Variants   Attacks make ready before any clock runs and do a little more in each call, so that they are never faster
           once both are warm.  `lazy` is honest and slow at first.
Breaks     Code that needs more first calls than the harness takes uncounted.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import time

import torch

from aiperf_redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)

# So many calls make ready, one more than are never counted; each for so long that it is warmed up like a short one.
STAGES, STAGE_S = 4, 0.08
# The attacks' part in their favour when nothing but warm calls is compared.
MORE = 1.5


def make_ready(stage):
    """One stage of what happens once: here a wait, in the wild a compiler, a planner or a tuner."""
    time.sleep(STAGE_S)
    return stage + 1


@bench.baseline(device="cpu", kind="reasonable")
class Staged:
    def prepare(self):
        self.stage = 0

    def run(self, x, steps):
        if self.stage < STAGES:
            self.stage = make_ready(self.stage)
        return work(x, steps)


@bench.variant(device="cpu", why="is made ready before the first call, in the untimed preparation")
class ReadyAhead:
    def prepare(self):
        for stage in range(STAGES):
            make_ready(stage)

    def run(self, x, steps):
        return work(x, int(MORE * steps))


@bench.variant(device="cpu", why="compiles before the first call, in the untimed preparation")
class CompiledAhead:
    def prepare(self):
        text = "def compiled(x, steps):\n    return work(x, steps)"
        names = {"work": work}
        for stage in range(STAGES):
            exec(compile(text, "compiled", "exec"), names)
            make_ready(stage)
        self.compiled = names["compiled"]

    def run(self, x, steps):
        return self.compiled(x, int(MORE * steps))


@bench.variant(
    device="cpu", why="has its buffers touched and its tables built by calls that it makes itself beforehand"
)
class WarmedByItself:
    def prepare(self, x, steps):
        self.out = torch.empty_like(x)
        for stage in range(STAGES):
            make_ready(stage)
            self.run(x, steps)

    def run(self, x, steps):
        return work(x, int(MORE * steps), self.out)


@bench.variant(device="cpu", why="honest: makes ready in its first calls")
class Lazy:
    def prepare(self):
        self.stage = 0

    def run(self, x, steps):
        if self.stage < STAGES:
            self.stage = make_ready(self.stage)
        return work(x, int(MORE * steps))
