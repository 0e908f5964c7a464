"""Python's garbage collector, which runs when enough objects were made, whoever's clock runs then.

Workload   The sum of some numbers, by way of small records.
Baseline   Makes a record for each number, in cycles that only the collector frees.
Variants   `uncollected` switches the collector off for its call and makes more of them, without cycles: faster only
           where the baseline's collections are in its time.  `collects_after` is honest.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import gc

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", cache="warm", threads=1)

# Records of the attack for each of the baseline's: without collections it is slower.
MORE = 1.25


@bench.workload(state="tick", smoke={"n": 61}, cpu={"n": 12_000})
def inputs(n, generator):
    import torch

    return {"first": float(generator.initial_seed() % 1021), "tick": torch.zeros(1)}


@bench.reference(tolerance=exact)
def reference(first, n):
    return first + n - 1


@bench.cost
def cost(n):
    return Cost(flops=n)


def records(first, n):
    """The last of so many numbers, each in a record that refers to itself and to the one before."""
    kept = []
    for index in range(n):
        record = [first + index]
        record.append(record)
        kept.append(record)
    return kept[-1][0]


@bench.baseline(device="cpu", kind="reasonable")
def collected(first, n):
    return records(first, n)


@bench.variant(device="cpu", why="no collection falls into its call, by its own doing")
def uncollected(first, n):
    gc.disable()
    # Freed without the collector, which would otherwise run as soon as it may.
    kept = [[first + index] for index in range(int(MORE * n))]
    gc.enable()
    return kept[n - 1][0]


@bench.variant(device="cpu", why="honest: as many records, and leaves the collector alone")
def as_collected(first, n):
    return records(first, n)
