"""A key-value cache that is read in part, beside honest code that reads it in another way.

Workload   A few new positions write their keys and values at the end of the cache and attend to all of it, in float32.
           The cache is state: the judge restores it before each call.
Baseline   softmax(q k^T) v over the whole cache.
Variants   First the code that commits the issue, then its honest look-alike.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")

PART = 8


@bench.workload(
    state=("keys", "values"),
    smoke={"heads": 2, "new": 4, "length": 64, "dim": 16},
    cpu={"heads": 4, "new": 128, "length": 512, "dim": 16},
    cuda={"heads": 32, "new": 64, "length": 16384, "dim": 64},
)
def inputs(heads, new, length, dim, device, generator):
    sizes = {"q": new, "new_keys": new, "new_values": new, "keys": length, "values": length}
    return {
        name: torch.randn(heads, positions, dim, device=device, generator=generator)
        for name, positions in sizes.items()
    }


@bench.reference(tolerance=fp32_reduction)
def reference(q, new_keys, new_values, keys, values):
    return attention(q, *with_new(new_keys, new_values, keys, values))


@bench.cost
def cost(heads, new, length, dim):
    written = heads * new * dim  # the output, and as much twice at the end of the cache
    return Cost(
        bytes_read=8 * heads * length * dim + 4 * written, bytes_written=12 * written, flops=4 * written * length
    )


@bench.baseline(device=both, kind="reasonable")
def whole_cache(q, new_keys, new_values, keys, values):
    return attention(q, *with_new(new_keys, new_values, keys, values))


@bench.variant(device=both, why="only the youngest eighth of the cache is read")
def youngest(q, new_keys, new_values, keys, values):
    keys, values = with_new(new_keys, new_values, keys, values)
    first = keys.shape[1] - keys.shape[1] // PART
    return attention(q, keys[:, first:], values[:, first:])


@bench.variant(device=both, why="honest: the cache is read in pages, the youngest first, and none is left out")
def in_pages(q, new_keys, new_values, keys, values):
    keys, values = with_new(new_keys, new_values, keys, values)
    scores = torch.cat([scaled(q) @ page.transpose(1, 2) for page in reversed(keys.chunk(PART, 1))], -1)
    weights = torch.softmax(scores, -1).chunk(PART, -1)
    return sum(part @ page for part, page in zip(weights, reversed(values.chunk(PART, 1)), strict=True))


def with_new(new_keys, new_values, keys, values):
    keys[:, -new_keys.shape[1] :] = new_keys
    values[:, -new_values.shape[1] :] = new_values
    return keys, values


def attention(q, k, v):
    return torch.softmax(scaled(q) @ k.transpose(1, 2), -1) @ v


def scaled(q):
    return q * q.shape[-1] ** -0.5
