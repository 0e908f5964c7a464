"""Four-bit floating point without its tensor cores: weights are unpacked in registers, and bytes stay the bound.

Question    A GPU multiplies no e2m1. Does a step of one token gain what its bytes promise, and by which unpacking?
Numbers     Gate and up of a 70B model, 57,344 x 8192 weights of four bits, with a scale of e4m3 for 16 of them: 4.5
            bits a weight, 0.26 GB, 0.06 ms at the rate of a read; 0.94 GB in bfloat16. A product of e2m1 and e4m3 has
            at most 6 bits, so bfloat16 holds it exactly. 132 SMs issue 3e13 instructions of lanes a second.
Prediction  A table of 256 pairs in shared memory: 0.24 billion reads, 32 lanes a cycle, and as random places meet in
            banks some 3.4 cycles each: 0.1 ms, less than 2x of the 0.22 ms of bfloat16. PRMT looks up four of eight
            bytes in registers: 2.5 instructions a weight, 0.04 ms, within the time of the bytes: 2.5 to 3.5x.
Limits      One token; from some 100 on, products are bound by arithmetic. Columns are multiples of 128. Here the
            weights are given in four bits; rounding normal weights to e2m1 in blocks of 16 errs by about 9 % of an
            output. Weights that are unpacked once and kept, the baseline, save no memory either.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import UsageError
from aiperf_core.kernels import cuda_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="latency", clock="device")
cuda = bench.on("cuda", requires="sm_80")
device_code = cuda_source("fp4_weight_gemm.cu")

SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # by code; the fourth bit is the sign
GROUP, STEP, THREADS = 16, 128, 128
ROWS = THREADS // 32 * 16  # of a block
PART = 4096  # rows that the reference unpacks at a time


@bench.workload(
    smoke={"rows": 61, "columns": 384},
    cuda={"rows": 57344, "columns": 8192},
    down8b={"rows": 4096, "columns": 14336},
)
def inputs(columns, device, generator):
    if columns % STEP:
        raise UsageError(f"columns={columns}; accepted are multiples of {STEP}")
    return {"x": torch.randn(columns, device=device, generator=generator).bfloat16()}


@bench.static
def parameters(rows, columns, device, generator):
    """Codes of all values, two in a byte, the first in its low half, and scales of 2^-6 to 2^2."""

    def drawn(least, most, count):
        return torch.randint(least, most, (rows, count), dtype=torch.uint8, device=device, generator=generator)

    return {"codes": drawn(0, 256, columns // 2), "scales": drawn(8, 72, columns // GROUP)}


def unpacked(codes, scales):
    """The weights as bfloat16, exactly."""
    values = torch.tensor([*SIZES, *(-one for one in SIZES)], device=codes.device)
    pairs = torch.stack([values[(codes & 15).int()], values[(codes >> 4).int()]], -1)
    factors = scales.view(torch.float8_e4m3fn).float()[..., None]
    return (pairs.view(len(codes), -1, GROUP) * factors).flatten(1).bfloat16()


@bench.reference(tolerance=bf16)
def reference(x, codes, scales):
    parts = zip(codes.split(PART), scales.split(PART), strict=True)
    return torch.cat([functional.linear(x, unpacked(*part).to(x.dtype)) for part in parts])


@bench.cost
def cost(rows, columns):
    return Cost(
        bytes_read=rows * columns * (0.5 + 1 / GROUP) + 2 * columns,
        bytes_written=2 * rows,
        flops=2 * rows * columns,
        precision="bf16",
        tokens=1,
    )


def whole_cost(rows, columns):
    """The work of weights in bfloat16."""
    return Cost(
        bytes_read=2 * (rows + 1) * columns,
        bytes_written=2 * rows,
        flops=2 * rows * columns,
        precision="bf16",
        tokens=1,
    )


# One row; rows and steps that do not fill a block or a pair of steps; more columns than a chunk of x.
bench.awkward(
    {"rows": 1, "columns": 128},
    {"rows": 257, "columns": 128},
    {"rows": 67, "columns": 1152},
    {"rows": 331, "columns": 8320},
)
# 0.06 ms of bytes, a last wave of 7 blocks an SM, and 3 us to begin: 0.06 / 0.085.
cuda.reach(of="RBW", at_least=0.7, implementation="prmt")


@cuda.baseline(kind="reasonable", cost=whole_cost)
class UnpackedOnce:
    def prepare(self, codes, scales, rows):
        self.wide = torch.cat([unpacked(*part) for part in zip(codes.split(PART), scales.split(PART), strict=True)])
        self.y = torch.empty(rows, dtype=torch.bfloat16, device=codes.device)

    def run(self, x):
        return torch.mv(self.wide, x, out=self.y)


packed = launch(
    device_code,
    out=("x", ("rows",)),
    args=("codes", "scales", "x", "out", "rows", "columns"),
    grid=blocks(rows=ROWS),
    block=THREADS,
)

cuda.variant(
    packed("lut"),
    adds="table in shared memory",
    why="packed weights are a quarter of the bytes; each byte is the place of a pair in a table of 256",
    predict="1.3 to 2.5x: 0.24 billion reads at random places of 32 banks, 0.1 ms, in place of 0.22 ms of bytes",
)
cuda.variant(
    packed("prmt"),
    builds_on="lut",
    adds="table in registers",
    why="PRMT takes four of eight bytes by four codes, in registers, so shared memory has x alone",
    predict="1.1 to 2x: 0.04 ms of instructions beside 0.06 ms of bytes, in place of 0.1 ms of shared memory",
)
# Weights become bfloat16 without a conversion; a table's pairs are loads of four bytes.
bench.sass("lut", has=("LDG.128", "LDS.32", "HMMA"), lacks=("I2F", "F2F"))
bench.sass("prmt", has=("LDG.128", "PRMT", "HMMA"), lacks=("LDS.32", "I2F", "F2F"))
