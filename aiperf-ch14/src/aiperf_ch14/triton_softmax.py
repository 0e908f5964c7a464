"""Softmax in Triton: a row that stays on the chip is read once and written once.

Workload   y[i, j] = exp(x[i, j]) / the sum of exp(x[i, :]), bfloat16 in and out, float32 in between. One row has a late
           element on which exp alone overflows, so that the maximum of the whole row must be subtracted.
Baseline   The formula, one torch operation after the other: float32 intermediates go to memory and come back.
Variants   `one_block` (cuda): a program holds a whole row in registers.  `online` (cuda): a row of any length in
           chunks, the maximum and the sum in one pass, the result in a second, which finds the row in the
           cache.  `persistent` (cuda): as many programs as the GPU runs at a time, which fetch the next row while they
           compute one.
           `few_rows` (cpu): the formula, a few rows at a time. It shows the same mechanism (intermediates that do not
           leave the cache) in torch, and nothing about Triton, which has no kernels for processors.
Breaks     Rows so long that the registers do not hold them: `one_block` and `persistent` spill, and `online` is left.
           Few rows, of which not every multiprocessor gets one.
"""

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import triton_ahead, triton_source
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
STAGES = 3
REGISTERS, REGISTER_FILE = 64, 1 << 16  # of a thread of `persistent` at most, and of a multiprocessor
REDUCTION_BYTES, RESERVED_BYTES = 256, 1024  # of shared memory: a program's own, and what CUDA takes for each program
# Elements in float32 that a processor keeps in the second-level cache beside their sources and results.
CACHED = 1 << 16


def ahead(kernel, warps, sizes=("columns",), **constants):
    """How a kernel is compiled without a GPU."""
    signature = {"x_ptr": "*bf16:16", "out_ptr": "*bf16:16"} | dict.fromkeys(sizes, "i32:16")
    return triton_ahead(kernel, signature=signature, constants=constants, num_warps=warps)


kernels = triton_source(
    "triton_softmax_triton.py",
    ahead("one_block", 2, BLOCK=1024),
    ahead("one_block", 32, BLOCK=LONGEST),
    ahead("online", 8, BLOCK=CHUNK),
    ahead("persistent", 16, ("rows", "columns"), BLOCK=8192, STAGES=STAGES),
    archs=("sm_80", "sm_90"),
)


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


@cuda.variant(
    builds_on="one_block",
    adds="persistent programs",
    why="programs stay for many rows, and the next rows are on their way while one is computed",
)
class Persistent:
    def prepare(self, x):
        self.out, self.kernel = torch.empty_like(x), kernels.kernel("persistent")
        self.block = block_of(x.shape[1])
        self.warps = warps_of(self.block)
        gpu = torch.cuda.get_device_properties(x.device)
        # torch 2.13 omits it from its types.
        most_bytes = gpu.shared_memory_per_block_optin  # type: ignore[attr-defined]
        # The rows that are on their way lie in shared memory, of which the reductions take a little too.
        row_bytes = self.block * x.element_size()
        ahead = min(STAGES - 1, (most_bytes - REDUCTION_BYTES) // row_bytes)
        self.stages = 1 + ahead
        by_registers = REGISTER_FILE // (REGISTERS * 32 * self.warps)
        by_memory = gpu.shared_memory_per_multiprocessor // (ahead * row_bytes + RESERVED_BYTES)
        self.programs = min(len(x), gpu.multi_processor_count * max(1, min(by_registers, by_memory)))

    def run(self, x):
        rows, columns = x.shape
        self.kernel[(self.programs,)](
            x, self.out, rows, columns, BLOCK=self.block, STAGES=self.stages, num_warps=self.warps
        )
        return self.out


@bench.yardstick(device=("cpu", "cuda"), why="the library's softmax, which chooses a kernel by the length of a row")
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
