"""A machine that slows down while it is measured.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, a little slower with every moment since the process began.
Variants   `later` is the same code under another name. Whoever is measured second is slower; a careless order takes that for a
           difference.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import time

from aiperf_core.redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)

# So much longer does a call take for each second that has passed, in seconds.
SLOWER = 0.05
# All processes of a run are about as old.
STARTED = time.monotonic()


def drifting(x, steps):
    time.sleep(SLOWER * (time.monotonic() - STARTED))
    return work(x, steps)


@bench.baseline(device="cpu", kind="reasonable")
def sooner(x, steps):
    return drifting(x, steps)


@bench.variant(device="cpu", why="the same code: a gain or a loss would be that of the order")
def later(x, steps):
    return drifting(x, steps)
