"""Verified search: of the kernels that a template makes, only those that are verified are measured.

Question    Does a search for the fastest kernel end with one that is right?
Numbers     s = x + residual; y = max(0, s / rms(s) * weight)^2 of 2048 rows of 1024 float32: 8.4 MB a tensor. The four
            genes of the template make 32 kernels, of which 10 are right: a tail that is left out and an estimated root
            are less work. One torch operation after the other is 14 trips of a tensor to memory, one loop is 4.
Prediction  At most 14 / 4 = 3.5x from one loop. Its sum is a chain of 2^21 additions, each of which waits 3 or 4 cycles
            for the one before: up to 2^23 cycles, where sums in many lanes leave the 4 trips.
Limits      Rows of a few columns, for which a call costs more than its loops; tensors that stay in the last-level
            cache, whose trips are short. A search that measures first and verifies the winner only ends with a wrong
            one. The search measures rows that stay in the cache: from memory, its candidates differ less.
"""

import torch

from aiperf_ch20 import generator
from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed", clock="device", threads=1, prepare_timeout_s=600)
cpu = bench.on("cpu", requires="compiler")

SEED, TRIALS = 3, 20
# Rows of a measurement in the search: as many as stay in the second-level cache.
MEASURED = 1 << 16


@bench.workload(smoke={"rows": 13, "columns": 67}, cpu={"rows": 2048, "columns": 1024})
def inputs(rows, columns, device, generator):
    draw = {"device": device, "generator": generator}
    return {
        "x": torch.randn(rows, columns, **draw),
        "residual": torch.randn(rows, columns, **draw),
        "weight": torch.rand(columns, **draw) + 0.5,
    }


@bench.reference(tolerance=fp32)
def reference(x, residual, weight):
    stream, y = generator.right(x, residual, weight)
    return {"stream": stream, "y": y}


@bench.cost
def cost(rows, columns):
    # An addition, a square and its sum, two products, a comparison and a square for each element.
    size = 4 * rows * columns
    return Cost(bytes_read=2 * size + 4 * columns, bytes_written=2 * size, flops=7 * rows * columns)


bench.awkward({"rows": 1, "columns": 1}, {"rows": 5, "columns": 31}, {"rows": 3, "columns": 1027})
cpu.reach(of="time:eager", at_most=0.6, implementation="searched")


@cpu.baseline(kind="reasonable")
class Eager:
    def prepare(self, x):
        self.stream, self.y = torch.empty_like(x), torch.empty_like(x)

    def run(self, x, residual, weight):
        torch.add(x, residual, out=self.stream)
        mean = torch.mul(self.stream, self.stream, out=self.y).mean(-1, keepdim=True)
        torch.mul(self.stream, (mean + generator.EPSILON).rsqrt(), out=self.y)
        return {"stream": self.stream, "y": self.y.mul_(weight).clamp_min_(0).square_()}


@cpu.variant(
    name="template",
    adds="fusion",
    why="a row is read once, and is in the cache for all that follows",
    predict="at most 3.5x: 4 trips of a tensor to memory, not 14, beside a sum in which additions wait for each other",
)
class Fused:
    def prepare(self, x):
        self.genes = self.chosen(*x.shape)
        self.call = generator.compiled(self.genes)
        self.stream, self.y = torch.empty_like(x), torch.empty_like(x)

    def chosen(self, rows, columns):
        return generator.PLAIN

    def run(self, x, residual, weight):
        generator.call(self.call, [x, residual, weight], [self.stream, self.y])
        return {"stream": self.stream, "y": self.y}


@cpu.variant(
    builds_on="template",
    adds="verified search",
    why="sums in many lanes do not wait for each other, and a compiler may not make them of one sum by itself",
)
class Searched(Fused):
    def chosen(self, rows, columns):
        few = min(rows, max(1, MEASURED // columns))
        best, _ = generator.search(few, columns, TRIALS, SEED)
        return best
