"""What makes figures that do not carry a conclusion: drift, rare slow calls, one process's luck.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, and now and then slow.
Variants   Each would be faster by a careless measurement: by the mean, by taking one side first, by one process. None is, where
           sides take turns and medians of several processes decide.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import time

from aiperf_core.redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)

# Every so many calls of the baseline one is slow, by so much.
RARE, SLOW_S = 5, 0.02
MORE = 1.3


@bench.baseline(device="cpu", kind="reasonable")
class NowAndThenSlow:
    def prepare(self):
        self.calls = 0

    def run(self, x, steps):
        self.calls += 1
        if self.calls % RARE == 0:
            time.sleep(SLOW_S)
        return work(x, steps)


@bench.variant(device="cpu", why="never slow, and a little more work in each call: faster by the mean only")
def never_slow(x, steps):
    return work(x, int(MORE * steps))


@bench.variant(device="cpu", why="honest: now and then slow as well")
class SometimesSlow:
    def prepare(self):
        self.calls = 0

    def run(self, x, steps):
        self.calls += 1
        if self.calls % RARE == 0:
            time.sleep(SLOW_S / 2)
        return work(x, steps)
