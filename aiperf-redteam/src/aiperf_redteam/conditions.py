"""Load that an implementation puts on the machine from outside its own process.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step, on the one processor that all are given.
Variants   `loads_machine` starts processes that do nothing but keep the processors busy.
Breaks     On a machine that other users load already, the finding comes without the attack.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import os
import subprocess
import sys

from aiperf_redteam.relaxation import LONG, benchmark, work

bench = benchmark(steps=LONG)

# A process of its own session whose parent ends at once, and which ends with the worker, or after some seconds.
BUSY = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
os.sched_setaffinity(0, range(os.cpu_count() or 1))
until = time.monotonic() + 20
while time.monotonic() < until and os.path.exists("/proc/" + sys.argv[1]):
    for _ in range(100_000):
        pass
"""


@bench.baseline(device="cpu", kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


@bench.variant(device="cpu", why="busy processes that nobody counts as a part of the run")
class LoadsMachine:
    def prepare(self):
        for _ in range(os.cpu_count() or 1):
            subprocess.run([sys.executable, "-c", BUSY, str(os.getpid())], check=True)

    def run(self, x, steps):
        return work(x, steps)
