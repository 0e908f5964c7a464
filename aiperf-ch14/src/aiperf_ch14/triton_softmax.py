"""Softmax in Triton: a row that stays on the chip is read once and written once.

Question    What does a softmax cost whose intermediates stay in registers, and when must a row be read twice?
Numbers     32768 rows of 8192 bfloat16 values, 0.54 GB in and as many out: 0.25 ms at the rate of a copy. One row has a
            late element on which exp alone overflows, so that the maximum of the whole row must be subtracted. The
            formula in torch writes four float32 intermediates and reads them again: 36 bytes an element, where the work
            needs 4.
Prediction  36 / 4 = 9x from fusion. A row in chunks is read twice, the second time from L2 if the rows of all programs
            fit in it: between 6 / 4 and 1 of the time of `one_block`.
Limits      From 65536 columns on a program has no registers for a row, and `online` is left. Fewer rows than SMs leave
            some of them idle. Persistent programs that fetch the next row while they compute one lose: with 2 programs
            an SM as many bytes are in flight as with new programs, and each row waits for the barrier of the one
            before.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={
        "cpu": "exponentials take longer than the memory that is spared, and Triton has no kernels for processors"
    },
)
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

SPIKE = 96.0  # exp(89) is beyond float32
CHUNK = 4096  # columns of a row that `online` has in registers
# With 32 warps, the most that a program has, it is 64 float32 values a thread.
LONGEST = 1 << 16
# Elements in float32 that a processor keeps in the second-level cache beside their sources and results.
CACHED = 1 << 16


kernels = triton_source("triton_softmax_triton.py", archs=("sm_80", "sm_90"))


@bench.workload(
    smoke={"rows": 41, "columns": 521},
    cpu={"rows": 2048, "columns": 1024},
    cuda={"rows": 32768, "columns": 8192},
    short={"rows": 32768, "columns": 1024},
    long={"rows": 32768, "columns": 65536},
)
def inputs(rows, columns, device, generator):
    x = torch.randn(rows, columns, device=device, generator=generator)
    place = torch.randint(columns - columns // 4 - 1, columns, (1,), device=device, generator=generator)
    row = torch.randint(rows, (1,), device=device, generator=generator)
    x[row, place] = SPIKE
    return {"x": x.bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x):
    return torch.softmax(x, -1)


@bench.cost
def cost(rows, columns):
    # Of each element: a comparison, a subtraction, an exponential, an addition, a division.
    return Cost(bytes_read=2 * rows * columns, bytes_written=2 * rows * columns, flops=5 * rows * columns)


# The smallest; primes; a row around a power of two.
bench.awkward({"rows": 1, "columns": 1}, {"rows": 101, "columns": 513}, {"rows": 3, "columns": 65521})
cuda.reach(of="BW", at_least=0.90)


@bench.baseline(device=("cpu", "cuda"), kind="naive")
def eager(x):
    x = x.float()  # in bfloat16 the difference below would lose the digits that exp needs
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return (weights / weights.sum(-1, keepdim=True)).bfloat16()


@bench.variant(
    device="cpu",
    adds="cache blocking",
    why="the float32 intermediates of a few rows stay in the cache, in memory that is used again",
)
class FewRows:
    def prepare(self, x):
        self.out = torch.empty_like(x)
        step = max(1, CACHED // x.shape[1])
        self.wide = torch.empty(min(step, len(x)), x.shape[1])
        self.parts = list(zip(x.split(step), self.out.split(step), strict=True))

    def run(self):
        for x, out in self.parts:
            wide = self.wide[: len(x)].copy_(x)
            wide.sub_(wide.amax(-1, keepdim=True)).exp_()
            torch.div(wide, wide.sum(-1, keepdim=True), out=wide)
            out.copy_(wide)
        return self.out


a_row = launch(kernels, out="x", grid=blocks(rows=1))

cuda.variant(
    a_row(
        "one_block",
        make={"BLOCK": lambda columns: block_of(columns)},
        options={"num_warps": lambda columns: warps_of(block_of(columns))},
    ),
    adds="rows in registers",
    why="a row is loaded once, and waits in registers for its maximum and its sum",
)
cuda.variant(
    a_row("online", make={"BLOCK": CHUNK}, options={"num_warps": 8}),
    adds="online maximum",
    why="maximum and sum come from one pass, so a row too long for registers is read twice, the second time from the "
    "cache",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.softmax, which chooses a kernel by the length of a row")
class Library:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.softmax(x, -1, out=self.out)


def block_of(columns):
    """The power of two that holds a row. Raises `SkipError` for a row that no program holds."""
    if columns > LONGEST:
        raise SkipError(f"holds a row of up to {LONGEST} columns in registers; this one has {columns}")
    return 1 << (columns - 1).bit_length()


def warps_of(block):
    """Warps for which a thread holds 16 elements; more of them where there are no more warps."""
    return min(32, max(1, block // 512))
