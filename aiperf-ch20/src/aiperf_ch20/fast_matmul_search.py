"""Matrix multiplication with fewer products: Strassen's scheme, and a search that finds one like it.

Question    When do seven products and eighteen additions take less time than eight products?
Numbers     C = A B for n x n matrices. CPU: n = 384, integers modulo the prime 2^61 - 1, as in computer algebra: every
            scheme is exact there, and no library of floating point helps. GPU: n = 16384 in float32, or in bfloat16
            with `bits=16`: a level saves 1.1 of 8.8 TFLOP, and its additions move some 16 GB in separate kernels.
Prediction  At most 8 / 7 = 1.14x a level, 1.49x for three. On a GPU the additions of float32 cost 4 ms of some 170 ms:
            1.11x; in one kernel that reads each block once, half of that.
Limits      Small matrices: an addition moves as many bytes as before, while products shrink with n. Floating point: the
            error grows with each level, and elements small beside their neighbours lose most. Fast arithmetic: tensor
            cores multiply so fast that eighteen additions in memory outweigh an eighth of the products.
"""

from functools import cache

import torch
from torch.nn import functional

from aiperf_ch20.schemes import STRASSEN, search
from aiperf_core import Benchmark, Cost, Tolerance, exact, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source, triton_source

bench = Benchmark(goal="speed", clock="device", threads=1)
cpu, cuda = bench.on("cpu", requires="compiler"), bench.on("cuda", requires="sm_80")
host_code = host_source("fast_matmul.c")
kernels = triton_source("fast_matmul_triton.py", archs=("sm_80", "sm_90"), launched_by=("fused_adds",))

DTYPES = {16: torch.bfloat16, 32: torch.float32, 61: torch.int64}
LEVELS = 3
PRIME = (1 << 61) - 1
DIGIT = 21  # bits of a digit, of which three make a number; sums of products of them are exact in float64
BLOCK, WARPS = 1024, 4
SEED = 1


def tolerance(bits):
    if bits == 16:
        return Tolerance(1.5e-2, reason="sums of bfloat16 blocks, and products of them, are rounded to bfloat16")
    return exact if bits == 61 else fp32_reduction


@bench.workload(
    smoke={"n": 67, "bits": 32},
    cpu={"n": 384, "bits": 61},
    cuda={"n": 16384, "bits": 32},
    half={"n": 16384, "bits": 16},
)
def inputs(n, bits, device, generator):
    draw = {"device": device, "generator": generator}
    if bits == 61:
        return {name: torch.randint(PRIME, (n, n), **draw) for name in ("a", "b")}
    return {name: torch.randn(n, n, **draw).to(DTYPES[bits]) for name in ("a", "b")}


@bench.reference(tolerance=tolerance)
def reference(a, b, bits):
    if bits != 61:
        return a @ b
    total = torch.zeros_like(a)
    for i, left in enumerate(digits(a)):
        for j, right in enumerate(digits(b)):
            total = (total + turned((left.double() @ right.double()).long(), DIGIT * (i + j))) % PRIME
    return total


def digits(x):
    """Three digits of every number, the lowest first."""
    return [(x >> (DIGIT * place)) % (1 << DIGIT) for place in range(3)]


def turned(x, places):
    """The product with a power of two modulo the prime: the 61 bits go around."""
    places %= 61
    return ((x << places) & PRIME) | (x >> (61 - places)) if places else x


@bench.cost
def cost(n, bits):
    # A scheme may spare an eighth of the operations on each level.
    precision = "bf16" if bits == 16 else "fp32"
    size = (8 if bits == 61 else bits // 8) * n * n
    return Cost(bytes_read=2 * size, bytes_written=size, flops=2 * n**3 * (7 / 8) ** LEVELS, precision=precision)


# A single element; an odd size; whole blocks and a rim of them; integers; half precision.
bench.awkward({"n": 1}, {"n": 7}, {"n": 130}, {"n": 1, "bits": 61}, {"n": 101, "bits": 61}, {"n": 63, "bits": 16})
bench.accept("cost.flops", because="a scheme does with fewer operations than the definition, an eighth for each level")
cpu.reach(of="speedup", at_least=1.2)
cuda.reach(of="speedup", at_least=1.08, implementation="fused_adds")


def widened(x, n):
    """The matrix with zeros up to n x n; itself where it is as large."""
    more = n - len(x)
    return functional.pad(x, (0, more, 0, more)) if more else x


class Product:
    """By a scheme of `levels` levels, in C."""

    levels, scheme = 0, STRASSEN

    def prepare(self, a, bits):
        if bits == 16:
            raise SkipError("the C code has no bfloat16")
        whole = 1 << self.levels
        self.n = -(-len(a) // whole) * whole
        self.multiply = host_code.function(f"multiply_{bits}")
        self.factors = [torch.tensor(one).flatten() for one in zip(*self.scheme, strict=True)]
        self.out, self.scratch = (a.new_empty(self.n, self.n) for _ in range(2))

    def run(self, a, b):
        n = self.n
        rank = len(self.scheme)
        self.multiply(widened(a, n), widened(b, n), self.out, n, self.levels, *self.factors, rank, self.scratch)
        return self.out[: len(a), : len(a)].contiguous()


@cpu.baseline(kind="reasonable")
class Plain(Product):
    pass


@cuda.baseline(kind="reasonable")
class Library:
    def prepare(self, a, bits):
        refuse_integers(bits)
        self.out = torch.empty_like(a)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)


def refuse_integers(bits):
    if bits == 61:
        raise SkipError("torch has no product of integers on GPUs")


@cpu.variant(
    name="one_level",
    adds="strassen",
    why="seven products of blocks in place of eight, for additions that take little time beside a product",
)
class OneLevel(Product):
    levels = 1


@cpu.variant(
    builds_on="one_level", adds="recursion", why="each level spares an eighth of the products of the one above"
)
class ThreeLevels(Product):
    levels = LEVELS


@cache
def searched_scheme():
    """Scheme of the seed. It is searched once a process, which takes a second."""
    return search(SEED)


@cpu.variant(
    adds=("searched scheme", "recursion"), why="seven products too, by a scheme that is not written in this file"
)
class Searched(ThreeLevels):
    def prepare(self, a, bits):
        self.scheme = searched_scheme()
        super().prepare(a, bits)


@cuda.variant(
    name="one_level",
    adds="strassen",
    why="seven products of the library, of blocks of half the size, in place of eight",
)
class Blocks:
    def prepare(self, a, bits):
        refuse_integers(bits)
        self.size, self.n = len(a), len(a) + len(a) % 2
        self.half = self.n // 2
        self.out = a.new_empty(self.n, self.n)
        self.left, self.right, self.part = (a.new_empty(self.half, self.half) for _ in range(3))
        # Float32 where sums of bfloat16 would round seven times.
        self.sums = torch.empty(self.n, self.n, device=a.device) if bits == 16 else self.out

    def run(self, a, b):
        a, b, sums = (quadrants(widened(one, self.n)) for one in (a, b, self.sums))
        self.sums.zero_()
        for u, v, w in STRASSEN:
            torch.mm(combined(a, u, self.left), combined(b, v, self.right), out=self.part)
            for factor, to in zip(w, sums, strict=True):
                if factor:
                    to.add_(self.part, alpha=factor)
        return self.whole()

    def whole(self):
        if self.sums is not self.out:
            self.out.copy_(self.sums)
        return self.out[: self.size, : self.size]


def quadrants(x):
    half = len(x) // 2
    return x[:half, :half], x[:half, half:], x[half:, :half], x[half:, half:]


def combined(parts, factors, out):
    """The sum of the parts with their factors; a part itself where it is the sum."""
    first, *others = (place for place in range(4) if factors[place])
    if not others and factors[first] == 1:
        return parts[first]
    torch.mul(parts[first], factors[first], out=out)
    for place in others:
        out.add_(parts[place], alpha=factors[place])
    return out


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="one_level",
    adds="fused additions",
    why="a block is read once for all sums that it is a part of, and the seven products are added up in one pass",
)
class FusedAdds:
    def prepare(self, a, bits):
        refuse_integers(bits)
        self.size, self.n = len(a), len(a) + len(a) % 2
        self.half = self.n // 2
        u, v, w = (torch.tensor(one, dtype=torch.float32, device=a.device) for one in zip(*STRASSEN, strict=True))
        self.factors, self.back = (u, v), w.t().contiguous()
        self.sums = [a.new_empty(len(u), self.half, self.half) for _ in range(2)]
        self.parts, self.out = a.new_empty(len(u), self.half, self.half), a.new_empty(self.n, self.n)
        self.kernel = kernels.kernel("combine")

    def run(self, a, b):
        for x, factors, sums in zip((a, b), self.factors, self.sums, strict=True):
            self.combine(widened(x, self.n), factors, sums)
        torch.bmm(*self.sums, out=self.parts)
        self.combine(self.parts, self.back, self.out)
        return self.out[: self.size, : self.size]

    def combine(self, source, factors, out):
        """Blocks that are quadrants, or a stack of them."""
        half, steps = self.half, []
        for x in (source, out):
            steps += [self.n, half * self.n, half] if x.dim() == 2 else [half, 2 * half * half, half * half]
        outs, ins = factors.shape
        grid = half, -(-half // BLOCK)
        self.kernel[grid](source, factors, out, half, *steps, INS=ins, OUTS=outs, BLOCK=BLOCK, num_warps=WARPS)
