"""Generated kernels: candidates from a template, of which only those that are verified are measured.

Workload   s = x + residual; y = max(0, s / rms(s) * weight)^2, by rows of float32, as between layers of a transformer.
Baseline   One torch operation after the other; each reads from memory what the one before it wrote.
Variants   `template`: one loop in C for all of it, as the template of the generator has it first.  `searched`:
           `prepare` changes the template gene by gene, compiles each candidate, verifies it as the judge does (against
           float64, with poisoned outputs, at awkward sizes), and keeps the fastest that is right.
Breaks     Rows of a few columns, for which a call costs more than its loops. A search that measures first and verifies
           the winner only: two of the template's genes make the code faster and wrong, and it would end there.
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


@cpu.variant(name="template", adds="fusion", why="a row is read once, and is in the cache for all that follows")
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
