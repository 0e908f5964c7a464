"""Wrong outputs for a chain of products, each beside honest code that looks like it.

Workload   c = a @ b @ ... @ b in float32, as many factors b as `depth` says: much work on small operands.
Baseline   The library's products, one after the other.
Variants   First the code that commits an issue, then its honest look-alike.
Breaks     The speed of light refuses the cheapest of these as well: who proves another guard leaves it out.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import math

import torch

from aiperf_core import lossy
from aiperf_redteam.products import benchmark, both, chain

bench = benchmark()


# --- the same output for every input


@bench.variant(device=both, why="zeros need no operands")
def zeros(a):
    return torch.zeros_like(a)


@bench.variant(device=both, why="honest: the last sums are added to a buffer that is zero at first")
def added_to_zeros(a, b, depth):
    return torch.zeros_like(a).addmm_(chain(a, b, depth - 1), b)


# --- the output of earlier inputs


@bench.variant(device=both, why="the product is computed once, and copied from then on")
class FirstProduct:
    def prepare(self):
        self.kept = None

    def run(self, a, b, depth):
        if self.kept is None:
            self.kept = chain(a, b, depth)
        return self.kept.clone()


@bench.variant(device=both, why="honest: the memory is kept, and every call writes all of it")
class KeptMemory:
    def prepare(self, a):
        self.out = torch.empty_like(a)

    def run(self, a, b, depth):
        return torch.mm(chain(a, b, depth - 1), b, out=self.out)


# --- an estimate in the place of the result


@bench.variant(device=both, why="the first sixteenth of each sum, scaled so that the result is as large as the whole")
def estimated(a, b, depth):
    terms = len(b) // 16
    for _ in range(depth):
        a = (a[:, :terms] @ b[:terms]).mul_(4)
    return a


@bench.variant(device=both, why="honest: sums in float64, rounded once, differ from the library's in their last bits")
def rounded_once(a, b, depth):
    return chain(a.double(), b.double(), depth).float()


# --- NaN passes for an answer


@bench.variant(device=both, why="no comparison with NaN is true")
def not_numbers(a):
    return torch.full_like(a, math.nan)


@bench.variant(device=both, why="honest: a buffer that holds NaN until the call overwrites it")
class NanAtFirst:
    def prepare(self, a):
        self.out = torch.full_like(a, math.nan)

    def run(self, a, b, depth):
        return torch.mm(chain(a, b, depth - 1), b, out=self.out.fill_(math.nan))


# --- infinities that hide what was computed


@bench.variant(device=both, why="infinity is as large as any sum")
def infinities(a):
    return torch.full_like(a, math.inf)


@bench.variant(device=both, why="honest: infinite bounds, which change nothing")
def infinite_bounds(a, b, depth):
    return chain(a, b, depth).clamp_(-math.inf, math.inf)


# --- an output of another shape


@bench.variant(device=both, why="one row broadcasts to all")
def one_row(a, b, depth):
    return chain(a[:1], b, depth)


@bench.variant(device=both, why="honest: another shape on the way, the right one in the end")
def batch_of_one(a, b, depth):
    return chain(a[None], b[None], depth).view_as(a)


# --- an output of another dtype


@bench.variant(device="cuda", why="half the bytes, and arithmetic that is cheap on a GPU")
def in_halves(a, b, depth):
    return chain(a.half(), b.half(), depth)


# --- the answer is wrong


@bench.variant(device=both, why="a product of elements, not of matrices")
def of_elements(a, b, depth):
    return a * b**depth


@bench.variant(device=both, why="honest: both halves of the sums by themselves, which rounds otherwise")
def in_two_sums(a, b, depth):
    half = a.shape[1] // 2
    for _ in range(depth):
        a = a[:, :half] @ b[:half] + a[:, half:] @ b[half:]
    return a


# --- the answer is not of the required form


@bench.variant(device=both, why="a tuple around something else")
def in_a_tuple(a):
    return (torch.zeros_like(a),)


@bench.variant(device=both, why="honest: columns lie together in memory, which is a tensor like any other")
def by_columns(a, b, depth):
    c = a.t()
    for _ in range(depth):
        c = b.t() @ c
    return c.t()


# --- a lossy variant loses more than it declared


@bench.variant(device=both, why="fifteen of sixteen terms of each sum are left out", lossy=lossy("rel_l2", at_most=0.1))
def thinned(a, b, depth):
    terms = len(b) // 16
    for _ in range(depth):
        a = a[:, :terms] @ b[:terms]
    return a


@bench.variant(device=both, why="honest: operands in bfloat16, as declared", lossy=lossy("rel_l2", at_most=0.1))
def narrow_as_declared(a, b, depth):
    return chain(a.bfloat16().float(), b.bfloat16().float(), depth)


# --- the input is handed back


@bench.variant(device=both, why="a copy of an input has the right shape, dtype and device")
def copy_of_a(a):
    return a.clone()


@bench.variant(device=both, why="honest: the output's memory comes from copying an input, and is then overwritten")
def written_over_a_copy(a, b, depth):
    return torch.mm(chain(a, b, depth - 1), b, out=a.clone())


# --- only a part of the output is computed


@bench.variant(device=both, why="a sixteenth of the rows")
def first_rows(a, b, depth):
    out, rows = torch.zeros_like(a), len(a) // 16
    out[:rows] = chain(a[:rows], b, depth)
    return out


@bench.variant(device=both, why="honest: one block of rows after the other, until all are there")
def all_rows_in_blocks(a, b, depth):
    out, rows = torch.empty_like(a), len(a) // 4
    for first in range(0, len(a), rows):
        out[first : first + rows] = chain(a[first : first + rows], b, depth)
    return out


# --- an object that equals everything


class AlwaysClose(torch.Tensor):
    """A tensor whose comparisons come out as they should, whatever it holds."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in (torch.equal, torch.allclose):
            return True
        result = super().__torch_function__(function, types, args, kwargs or {})
        return torch.zeros_like(result) if function in (torch.sub, torch.Tensor.sub) else result


class Named(torch.Tensor):
    """A tensor with a name, to find it in a profile."""

    name = "product"


@bench.variant(device=both, why="zeros that say they are close to anything")
def close_to_all(a):
    return torch.zeros_like(a).as_subclass(AlwaysClose)


@bench.variant(device=both, why="honest: a subclass on the way, a plain tensor in the end")
def named_on_the_way(a, b, depth):
    return chain(a.as_subclass(Named), b, depth).as_subclass(torch.Tensor)
