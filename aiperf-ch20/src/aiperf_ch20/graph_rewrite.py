"""Rewriting expressions: a rule that pays later is lost to a search that takes only what pays at once.

Question    How many operations do algebraic rules spare, and which search finds the order to apply them in?
Numbers     Eight expressions of n x n matrices, n = 512, of rank n / 8 and of vectors, float32. As written they take
            20.0 n^3 operations, by hand 6.3 n^3: products with a vector before those of matrices, sums before products.
            A rewrite is done in `prepare`; a call computes the forms that it found.
Prediction  Greedy rewrites reach the form by hand in 5 of 8, and 7.6 n^3. An update of low rank must be taken apart
            first, which adds n^2, and an adapter must be merged first, which costs a product: an e-graph keeps both
            forms, and reaches 8 of 8. At most 20.0 / 7.6 = 2.6x, and 7.6 / 6.3 = 1.2x beyond.
Limits      Long expressions: classes of equal terms grow fast, and saturation ends at a number of nodes. Extraction
            counts a term for each of its uses. Other orders round otherwise: results agree to a tolerance, not in bits.
"""

from typing import Any

import torch

from aiperf_ch20 import rewrites
from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="speed", clock="device", threads=1)
cpu = bench.on("cpu")


def at(left: Any, right: Any) -> tuple[Any, ...]:
    return "@", left, right


def plus(left: Any, right: Any) -> tuple[Any, ...]:
    return "+", left, right


# As written, and by hand. A to C are square, U is n x r, V is r x n, x and y are vectors, and X has 2 n rows.
PROGRAMS: dict[str, tuple[Any, Any]] = {
    "chain": (at(at(at("A", "B"), "C"), "x"), at("A", at("B", at("C", "x")))),
    "update": (at(plus("A", at("U", "V")), "x"), plus(at("A", "x"), at("U", at("V", "x")))),
    "shared factor": (plus(at("A", "B"), at("C", "B")), at(plus("A", "C"), "B")),
    "attention": (at(at("U", "V"), "U"), at("U", at("V", "U"))),
    "nested sum": (at(plus(at("A", "B"), at("A", "C")), "x"), at("A", at(plus("B", "C"), "x"))),
    "transposed": (("T", at(("T", "x"), at(("T", "A"), ("T", "B")))), at("B", at("A", "x"))),
    "adapter": (plus(at("X", "A"), at(at("X", "U"), "V")), at("X", plus("A", at("U", "V")))),
    "two vectors": (
        plus(at(plus("A", at("U", "V")), "x"), at("A", "y")),
        plus(at("A", plus("x", "y")), at("U", at("V", "x"))),
    ),
}


def shapes(n):
    """The rows and columns of each name."""
    rank = max(1, n // 8)
    square = dict.fromkeys("ABC", (n, n))
    return {**square, "U": (n, rank), "V": (rank, n), "x": (n, 1), "y": (n, 1), "X": (2 * n, n)}


@bench.workload(smoke={"n": 24}, cpu={"n": 512})
def inputs(n, device, generator):
    # Scaled, so that products of several do not grow.
    return {
        "matrices": {
            name: torch.randn(*size, device=device, generator=generator) / size[1] ** 0.5
            for name, size in shapes(n).items()
        }
    }


def evaluated(expression, matrices):
    """The value of an expression, with equal terms computed once."""
    values = dict(matrices)

    def value(one):
        if one not in values:
            operator, *operands = one
            first, *others = map(value, operands)
            if operator == "T":
                values[one] = first.t()
            else:
                values[one] = first @ others[0] if operator == "@" else first + others[0]
        return values[one]

    return value(expression).contiguous()


@bench.reference(tolerance=fp32_reduction)
def reference(matrices):
    return {name: evaluated(written, matrices) for name, (written, _) in PROGRAMS.items()}


@bench.cost
def cost(n):
    sizes = shapes(n)
    results = [rewrites.shape(written, sizes) for written, _ in PROGRAMS.values()]
    # At a few rows the forms by hand are not the least.
    flops = sum(min(rewrites.flops(one, sizes) for one in forms) for forms in PROGRAMS.values())
    return Cost(
        bytes_read=4 * sum(rows * columns for rows, columns in sizes.values()),
        bytes_written=4 * sum(rows * columns for rows, columns in results),
        flops=flops,
    )


bench.accept("cost.flops", because="the reference computes the expressions as they are written")
bench.awkward(n=(1, 7, 67))
cpu.reach(of="time:by_hand", at_most=1.05, implementation="e_graph")


class Rewritten:
    def prepare(self, n):
        sizes = shapes(n)
        self.programs = {name: self.chosen(forms, sizes) for name, forms in PROGRAMS.items()}

    def chosen(self, forms, sizes):
        """The form of a program that is computed. Each implementation has its own."""
        return forms[0]

    def run(self, matrices):
        return {name: evaluated(program, matrices) for name, program in self.programs.items()}


@cpu.baseline(kind="naive")
class AsWritten(Rewritten):
    pass


@cpu.variant(
    adds="greedy rewrites",
    why="of all rewrites of a form, the one that saves the most operations is applied, until none saves",
    predict="1.5 to 2.7x: 20.0 n^3 operations become 7.6 n^3, and products with a vector read a matrix each",
)
class Greedy(Rewritten):
    def chosen(self, forms, sizes):
        return rewrites.greedy(forms[0], sizes)


@cpu.variant(
    builds_on="greedy",
    adds="e-graph",
    why="all forms are kept in classes of equal terms, so that a rewrite which pays later is not lost",
    predict="1.05 to 1.2x: 7.6 n^3 operations become 6.3 n^3",
)
class EGraph(Rewritten):
    def chosen(self, forms, sizes):
        graph = rewrites.EGraph(sizes)
        whole = graph.add(forms[0])
        graph.saturate()
        return graph.extract(whole)


@cpu.yardstick(why="the form of fewest operations that we know, written by hand")
class ByHand(Rewritten):
    def chosen(self, forms, sizes):
        return forms[1]
