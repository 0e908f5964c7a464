"""The target of the untrusted code in `candidates`.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from aiperf_redteam.relaxation import LONG, benchmark, work

bench = benchmark(steps=LONG)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)
