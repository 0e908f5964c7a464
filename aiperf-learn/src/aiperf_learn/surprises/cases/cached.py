"""In a loop, each call finds its table in the cache, where the call before left it; other work displaces it."""

import timeit

import torch

from aiperf_core import Benchmark, Cost, exact

ENTRIES, LOOKUPS = 1 << 18, 1 << 14

bench = Benchmark(goal="speed", clock="wall", cache="cold", threads=1)


@bench.workload(smoke={"entries": 1021, "lookups": 61}, cpu={"entries": ENTRIES, "lookups": LOOKUPS})
def inputs(entries, lookups, generator):
    table = torch.randn(entries, generator=generator)
    return {"table": table, "index": torch.randint(entries, (lookups,), generator=generator)}


@bench.reference(tolerance=exact)
def reference(table, index):
    return table[index]


@bench.cost
def cost(lookups):
    return Cost(bytes_read=12 * lookups, bytes_written=4 * lookups)


@bench.baseline(device="cpu", kind="reasonable")
def look_up(table, index):
    return table[index]


def fooled():
    table, index = torch.randn(ENTRIES), torch.randint(ENTRIES, (LOOKUPS,))
    times = timeit.repeat(lambda: look_up(table, index), number=10, repeat=10)
    return {"look_up": min(times) / 10}


def cause():
    table, index, other = torch.randn(ENTRIES), torch.randint(ENTRIES, (LOOKUPS,)), torch.randn(1 << 24)
    between = {"nothing": lambda: None, "64 MiB of other memory": lambda: other.add_(1.0)}
    for call in between.values():
        call()
    yield (
        "time of a call after",
        "s",
        {
            name: min(timeit.repeat(lambda: look_up(table, index), setup=call, number=1, repeat=10))
            for name, call in between.items()
        },
    )
