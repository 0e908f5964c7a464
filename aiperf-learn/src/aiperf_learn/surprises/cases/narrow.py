"""A product in fewer bits is faster, and its digits beyond those bits are wrong. TF32 does this on a GPU."""

import timeit

import torch

from aiperf_core import Benchmark, Cost, Tolerance

N = 512

bench = Benchmark(goal="speed", clock="wall", cache="warm", threads=1)


@bench.workload(smoke={"n": 61}, cpu={"n": N})
def inputs(n, generator):
    drawn = torch.randn(2, n, n, generator=generator, dtype=torch.float64)
    return {"x": drawn[0].clone(), "y": drawn[1].clone()}


@bench.reference(tolerance=Tolerance(1e-13, reason="float64 sums of a thousand terms"))
def reference(x, y):
    return x @ y


@bench.cost
def cost(n):
    return Cost(bytes_read=16 * n * n, bytes_written=8 * n * n, flops=2 * n**3, precision="fp64")


@bench.baseline(device="cpu", kind="reasonable")
def double(x, y):
    return x @ y


@bench.variant(device="cpu", why="half the bits: twice the numbers in a register")
def single(x, y):
    return (x.float() @ y.float()).double()


def fooled():
    x, y = torch.randn(2, N, N, dtype=torch.float64)
    return {
        "double": timeit.timeit(lambda: double(x, y), number=20) / 20,
        "single": timeit.timeit(lambda: single(x, y), number=20) / 20,
    }


def cause():
    x, y = torch.randint(-100_000, 100_000, (2, N, N)).double()
    right = x.long() @ y.long()  # integers, which have no rounding
    products = {"double": double(x, y), "single": single(x, y)}
    yield (
        f"wrong elements, of {N * N:,}",
        "count",
        {name: int((out.long() != right).sum()) for name, out in products.items()},
    )
    yield "bits of a number's fraction", "count", {"double": 52, "single": 23}
