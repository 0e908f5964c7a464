"""Matrix product: each element of a and b is used many times, so what counts is how often it is fetched.

Question    How near to the rate of multiply-adds does a product come, whose second operand may be prepared ahead?
Numbers     C = A B in float32, m, n, k = 256, 512, 512: 134 MFLOP and 2.1 MB, on a GPU 2048, 2048, 1024: 8.6 GFLOP and
            34 MB. That is 64 and 256 operations a byte if each element is fetched once, 1/4 if for each use. B is a
            weight: it is declared static, stays the same and may be packed ahead. A is new in every sample. Both have
            full rank; some rows of A begin with zeros.
Prediction  Multiply-adds are the bound: 2 m n k operations take as long, wherever C lies and in whichever order B is
            stored, if a library packs its tiles: k n moves beside them.
Limits      The budget is that of float32 with sums of up to a thousand terms in any order: TF32, bfloat16, narrower
            accumulators and factors of lower rank are wrong. With m rows, an element of B has m / 2 operations for
            each of its bytes: where m is small, memory is the bound.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="device")


@bench.workload(
    smoke={"m": 13, "n": 37, "k": 129},
    cpu={"m": 256, "n": 512, "k": 512},
    cuda={"m": 2048, "n": 2048, "k": 1024},
)
def inputs(m, k, device, generator):
    a = torch.randn(m, k, device=device, generator=generator)
    begins_late = torch.rand(m, 1, device=device, generator=generator) < 0.125
    a[:, : k // 2].masked_fill_(begins_late, 0.0)
    return {"a": a}


@bench.static
def weight(n, k, device, generator):
    return {"b": torch.randn(k, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(a, b):
    return a @ b


@bench.cost
def cost(m, n, k):
    return Cost(bytes_read=4 * (m * k + k * n), bytes_written=4 * m * n, flops=2 * m * n * k, precision="fp32")


bench.reach(of="MM:fp32", at_least=0.9)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class Library:
    def run(self, a, b):
        return a @ b


@bench.variant(device=("cpu", "cuda"), why="the result's memory is allocated once, not in every call")
class KeptOutput:
    def prepare(self, a, b):
        self.out = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)


@bench.variant(device=("cpu", "cuda"), why="both operands lie along the summed dimension, in consecutive addresses")
class Packed:
    def prepare(self, b):
        self.packed = b.t().contiguous()

    def run(self, a):
        return torch.nn.functional.linear(a, self.packed)
