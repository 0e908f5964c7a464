"""Less work, or other work, in layers for a batch: each issue beside honest code that looks like it.

Workload   y = x @ w @ ... @ w in float32, as many layers w as `depth` says, for a batch x of new values and a static w,
           some of whose rows are zero.
Baseline   The library's products, one layer after the other.
Variants   First the code that commits an issue, then its honest look-alike.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", cache="warm", threads=1)
both = ("cpu", "cuda")

# What is left of the work by those who do less of it, and the size up to which one of them does it all.
PART = 16
SMALL = 64


@bench.workload(
    smoke={"batch": 16, "rows": 4, "n": 80, "depth": 2},
    cpu={"batch": 16, "rows": 12, "n": 160, "depth": 8},
    cuda={"batch": 16, "rows": 256, "n": 2048, "depth": 2},
)
def inputs(batch, rows, n, device, generator):
    return {"x": torch.randn(batch, rows, n, device=device, generator=generator)}


@bench.static
def weight(n, device, generator):
    w = torch.randn(n, n, device=device, generator=generator) * n**-0.5
    return {"w": w * (torch.rand(n, 1, device=device, generator=generator) > 0.125)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, w, depth):
    return layers(x, w, depth)


@bench.cost
def cost(batch, rows, n, depth):
    elements = batch * rows * n
    return Cost(bytes_read=4 * (elements + n * n), bytes_written=4 * elements, flops=2 * depth * elements * n)


@bench.baseline(device=both, kind="reasonable")
def one_by_one(x, w, depth):
    return layers(x, w, depth)


# --- lower precision under a higher one's name


@bench.variant(
    device=both, why="operands in bfloat16, which the GPU's matrix units take much faster; the result in float32"
)
def narrowed(x, w, depth):
    return layers(x.bfloat16(), w.bfloat16(), depth).float()


@bench.variant(device=both, why="honest: operands and sums in float64, which is wider than asked for")
def widened(x, w, depth):
    return layers(x.double(), w.double(), depth).float()


# --- a smaller batch


@bench.variant(device=both, why="one sample in sixteen is computed and stands for the others")
def one_sample(x, w, depth):
    return layers(x[: len(x) // PART], w, depth).repeat(PART, 1, 1)


@bench.variant(device=both, why="honest: small batches one after the other, which need less memory on the way")
def small_batches(x, w, depth):
    return torch.cat([layers(part, w, depth) for part in x.split(4)])


# --- a lower resolution inside


@bench.variant(device=both, why="means of four neighbours, multiplied and enlarged again")
def at_a_quarter(x, w, depth):
    batch, rows, n = x.shape
    coarse_x = x.view(batch, rows // 4, 4, n // 4, 4).mean((2, 4))
    coarse_w = w.view(n // 4, 4, n // 4, 4).mean(3).sum(1)
    return layers(coarse_x, coarse_w, depth).repeat_interleave(4, 1).repeat_interleave(4, 2)


@bench.variant(device=both, why="honest: every fourth element by itself, in four products that add up to the whole")
def four_phases(x, w, depth):
    for _ in range(depth):
        x = sum(x[..., phase::4] @ w[phase::4] for phase in range(4))
    return x


# --- sparser than the data


@bench.variant(device=both, why="the largest sixteenth of the weight's rows is kept, and the rest taken for zero")
class Pruned:
    def prepare(self, w):
        self.kept = w.norm(dim=1).topk(len(w) // PART).indices
        self.w = w[self.kept]

    def run(self, x, depth):
        for _ in range(depth):
            x = x[..., self.kept] @ self.w
        return x


@bench.variant(device=both, why="honest: rows of the weight that are zero are left out, which changes no sum")
class WithoutZeros:
    def prepare(self, w):
        self.kept = w.any(dim=1).nonzero()[:, 0]
        self.w = w[self.kept]

    def run(self, x, depth):
        for _ in range(depth):
            x = x[..., self.kept] @ self.w
        return x


# --- exact where checked, sloppy where timed


@bench.variant(device=both, why="exact at sizes that tests use, and a sixteenth of the sums at others")
def exact_if_small(x, w, depth):
    terms = len(w) if len(w) <= SMALL else len(w) // PART
    for _ in range(depth):
        x = x[..., :terms] @ w[:terms]
    return x


@bench.variant(device=both, why="honest: one way for small sizes and another for large ones, both exact")
def two_ways(x, w, depth):
    if len(w) <= SMALL:
        return layers(x, w, depth)
    return layers(x.flatten(0, 1), w, depth).view_as(x)


# --- an operand replaced by a thinner one


@bench.variant(device=both, why="the weight's leading directions alone, in two thin factors that were made ahead")
class LowRank:
    def prepare(self, w):
        u, s, v = torch.svd_lowrank(w, q=len(w) // PART)
        self.down, self.up = u * s, v.t().contiguous()
        self.between = self.up @ self.down

    def run(self, x, depth):
        x = x @ self.down
        for _ in range(depth - 1):
            x = x @ self.between
        return x @ self.up


@bench.variant(device=both, why="honest: two factors made ahead, of full rank, whose product is the weight")
class FullRank:
    def prepare(self, w):
        self.q, self.r = torch.linalg.qr(w.double())

    def run(self, x, depth):
        x = x.double()
        for _ in range(depth):
            x = x @ self.q @ self.r
        return x.float()


def layers(x, w, depth):
    """The product x @ w @ ... @ w, with so many factors w."""
    for _ in range(depth):
        x = x @ w
    return x
