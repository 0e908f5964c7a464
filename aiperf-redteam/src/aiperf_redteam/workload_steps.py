"""An iteration that ends too soon, beside one that may end and does so only where nothing changes any more.

Workload   y after so many steps of y = (y @ w) / 2 + x, from y = 0, in float32, for a static rotation w. Each step
           halves what is still missing.
Baseline   All steps.
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
    smoke={"rows": 4, "n": 32, "steps": 16},
    cpu={"rows": 64, "n": 256, "steps": 16},
    cuda={"rows": 1024, "n": 1024, "steps": 24},
)
def inputs(rows, n, device, generator):
    return {"x": torch.randn(rows, n, device=device, generator=generator)}


@bench.static
def rotation(n, device, generator):
    return {"w": torch.linalg.qr(torch.randn(n, n, device=device, generator=generator)).Q.contiguous()}


@bench.reference(tolerance=fp32_reduction)
def reference(x, w, steps):
    return iterated(x, w, steps)


@bench.cost
def cost(rows, n, steps):
    flops = 2 * (steps - 1) * rows * n * n
    return Cost(bytes_read=4 * (rows * n + n * n), bytes_written=4 * rows * n, flops=flops)


@bench.baseline(device=both, kind="reasonable")
def all_steps(x, w, steps):
    return iterated(x, w, steps)


@bench.variant(device=both, why="an eighth of the steps")
def some_steps(x, w, steps):
    return iterated(x, w, steps // PART)


@bench.variant(device=both, why="honest: it may end before the last step, but only where a step changes nothing")
def until_at_rest(x, w, steps):
    y = x.clone()
    for _ in range(steps - 1):
        after = torch.addmm(x, y, w, alpha=0.5)
        if torch.equal(after, y):
            break
        y = after
    return y


def iterated(x, w, steps):
    y = x.clone()
    for _ in range(steps - 1):
        y = torch.addmm(x, y, w, alpha=0.5)
    return y
