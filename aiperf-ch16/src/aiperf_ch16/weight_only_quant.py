"""Weight-only quantization: a step of few tokens reads weights, so that fewer bits are less time.

Question    What do 8- and 4-bit weights gain for 1 to 32 tokens, and what if they are unpacked first?
Numbers     Gate and up of a 70B model, 57,344 x 8192 weights, a token: 0.94 GB in bfloat16, 0.215 ms at the rate of a
            read. With a scale a row 0.47 GB in 8 bits; with one for 128 weights 0.25 GB in 4 bits, 0.057 ms. Tensor
            cores take 16 rows by 8 tokens; a pair of 4-bit weights becomes bfloat16 in 2 instructions, of 8 bits in 4.
Prediction  2x from 8 bits and 3.76x from 4, as far as bytes are the time: 132 SMs issue 3e13 instructions of lanes a
            second, 1.8 a weight are 0.03 ms. Unpacked to memory, 4 bits are 0.25 read, 0.94 written and 0.94 read: 2.3x
            the time of bfloat16. 32 tokens (`--size m32`) also read x, 0.5 MB, into each of 896 blocks, from L2.
Limits      Beyond some 300 tokens products of bfloat16 are bound by arithmetic, and weights of fewer bits save nothing.
            Answers change: 7 bits and a sign err by 1 % of an output, fp8 by 3 %, 4 bits by 12 % for normal weights.
            Columns are multiples of 128.
"""

import torch
from torch.nn import functional

from aiperf_core import Benchmark, Cost, bf16, lossy
from aiperf_core.errors import UsageError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="latency", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("weight_only_quant.cu"), host_source("weight_only_quant.c")

GROUP, THREADS = 128, 128
ROWS = THREADS // 32 * 16  # of a block
MOST = 32  # rows of x
FP8, FP8_LARGEST = torch.float8_e4m3fn, 448.0
# Eight neighbours as bytes of two words, of which bytes 0 and 2, 1 and 3 are pairs: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
PAIRED = [0, 1, 4, 5, 2, 3, 6, 7]

ON_A_GPU = {"rows": 57344, "columns": 8192}


@bench.workload(
    smoke={"batch": 3, "rows": 61, "columns": 384},
    cpu={"batch": 1, "rows": 8192, "columns": 4096},
    cuda={"batch": 1, **ON_A_GPU},
    m8={"batch": 8, **ON_A_GPU},
    m32={"batch": 32, **ON_A_GPU},
    down8b={"batch": 1, "rows": 4096, "columns": 14336},
)
def inputs(batch, columns, device, generator):
    if not 1 <= batch <= MOST or columns % GROUP:
        raise UsageError(
            f"batch={batch}, columns={columns}; accepted are batches of 1 to {MOST}, and multiples of {GROUP}"
        )
    return {"x": torch.randn(batch, columns, device=device, generator=generator).bfloat16()}


@bench.static
def parameters(rows, columns, device, generator):
    return {"weights": torch.randn(rows, columns, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x, weights):
    return functional.linear(x, weights)


def of_bits(bits):
    """The cost of weights that have so many bits, and of the scales that come with fewer than 16."""

    def cost(batch, rows, columns):
        scales = {4: rows * columns / GROUP, 8: rows, 16: 0}[bits]
        return Cost(
            bytes_read=rows * columns * bits / 8 + 4 * scales + 2 * batch * columns,
            bytes_written=2 * batch * rows,
            flops=2 * batch * rows * columns,
            precision="bf16",
            tokens=batch,
        )

    return cost


bench.cost(of_bits(16))
# A single group; batches around those of the kernels; several chunks of x, the last of them partly full.
bench.awkward(
    {"batch": 1, "rows": 257, "columns": 128},
    {"batch": 8, "rows": 130, "columns": 2176},
    {"batch": 9, "rows": 67, "columns": 1152},
    {"batch": 32, "rows": 131, "columns": 640},
    {"batch": 1, "rows": 331, "columns": 8320},
)
# 0.057 ms of bytes, 0.03 of instructions within them, a last wave of 7 blocks an SM, and 3 us to begin: 0.057 / 0.07.
cuda.reach(of="RBW", at_least=0.75, implementation="int4")


def in_int8(weights):
    """Whole numbers up to 127, and the scales of rows."""
    scales = weights.float().abs().amax(1, keepdim=True).div_(127).clamp_(min=1e-12)
    return (weights.float() / scales).round_(), scales[:, 0].contiguous()


def in_int4(weights):
    """Whole numbers of 0 to 15, of which 8 is zero: [rows, groups, GROUP]; and the scales of groups."""
    parts = weights.float().unflatten(1, (-1, GROUP))
    scales = parts.abs().amax(-1).div_(7).clamp_(min=1e-12)
    return (parts / scales[..., None]).round_().add_(8).to(torch.uint8), scales


def words_of(codes):
    """Words of eight neighbours in four bits, the first in the lowest."""
    nibbles = codes.view(len(codes), -1, 4, 2)
    return (nibbles[..., 0] | nibbles[..., 1] << 4).contiguous().view(torch.int32)


def signed(codes):
    """A sign and seven bits of each whole number, eight neighbours as pairs."""
    return paired(codes.abs().to(torch.uint8) | (codes < 0).to(torch.uint8) << 7)


def paired(codes):
    return codes.view(len(codes), -1, 8)[..., PAIRED].contiguous().view(torch.int32)


def in_fp8(weights):
    """Numbers of four bits of exponent and three of mantissa, and the scales of rows."""
    scales = weights.float().abs().amax(1, keepdim=True).div_(FP8_LARGEST).clamp_(min=1e-12)
    return (weights.float() / scales).to(FP8).view(torch.uint8), scales[:, 0].contiguous()


# --- on a CPU


@cpu.baseline(kind="reasonable", name="whole")
class WholeInC:
    kernel = "whole"

    def prepare(self, x, weights, rows):
        self.given, self.y = self.packed(weights), x.new_empty(len(x), rows)
        self.product = host_code.function(self.kernel)

    def packed(self, weights):
        """The weights as the kernel takes them."""
        return (weights,)

    def run(self, x, batch, rows, columns):
        self.product(*self.given, x.float(), self.y, batch, rows, columns)
        return self.y


@cpu.variant(
    name="int8",
    adds="int8",
    why="half the bytes are read, and become floats in registers",
    lossy=lossy("rel_l2", at_most=2e-2),
    cost=of_bits(8),
    predict="0.9 to 2x: 34 MB in place of 67, as far as memory and not instructions take the time",
    teaches="a processor whose memory is fast for its few cores waits for conversions, of which bytes need one more",
)
class Int8InC(WholeInC):
    kernel = "int8"

    def packed(self, weights):
        codes, scales = in_int8(weights)
        return codes.to(torch.int8), scales


@cpu.variant(
    name="int4",
    builds_on="int8",
    adds="int4",
    why="half the bytes again, of which each is two weights",
    lossy=lossy("rel_l2", at_most=0.16),
    cost=of_bits(4),
    predict="0.7 to 1.8x: 18 MB in place of 34, and more instructions a weight",
    teaches="where instructions are the bound, fewer bytes save nothing",
)
class Int4InC(WholeInC):
    kernel = "int4"

    def packed(self, weights):
        codes, scales = in_int4(weights)
        return (codes[..., : GROUP // 2] | codes[..., GROUP // 2 :] << 4).contiguous(), scales


# --- on a GPU


@cuda.baseline(kind="reasonable")
class Whole:
    def prepare(self, x, rows):
        self.y = x.new_empty(len(x), rows)

    def run(self, x, weights):
        return torch.mm(x, weights.t(), out=self.y)


@cuda.variant(
    adds="unpacking",
    why="weights of four bits are unpacked to memory in each step, for the product of the library",
    lossy=lossy("rel_l2", at_most=0.16),
    cost=of_bits(4),
    predict="0.35 to 0.55x: 2.1 GB moved in place of 0.94",
    teaches="weights that are stored in four bits save memory, and time only where they are unpacked in registers",
)
class DequantFirst:
    def prepare(self, x, weights, rows):
        codes, self.scales = in_int4(weights)
        self.codes = words_of(codes)
        self.wide, self.y = torch.empty_like(weights), x.new_empty(len(x), rows)
        self.unpack = device_code.kernel("unpack")

    def run(self, x):
        words = self.codes.numel()
        self.unpack(self.codes, self.scales, self.wide, words, grid=-(-words // THREADS), block=THREADS)
        return torch.mm(x, self.wide.t(), out=self.y)


in_registers = launch(
    device_code,
    make={
        "columns_of_x": lambda batch: 1 if batch == 1 else 8 if batch <= 8 else MOST,
        "y": lambda x, rows: x.new_empty(len(x), rows),
    },
    returns="y",
    grid=blocks(rows=ROWS),
    block=THREADS,
)

cuda.variant(
    in_registers(
        "fp8",
        kernel="product<FP8, {columns_of_x}>",
        make={"codes": lambda weights: paired(in_fp8(weights)[0]), "scales": lambda weights: in_fp8(weights)[1]},
    ),
    adds="fp8",
    why="half the bytes; sign, exponent and mantissa are shifted to their places in a bfloat16",
    lossy=lossy("rel_l2", at_most=5e-2),
    cost=of_bits(8),
    predict="1.6 to 2x: 0.47 GB in place of 0.94",
)
cuda.variant(
    in_registers(
        "int8",
        kernel="product<INT8, {columns_of_x}>",
        make={"codes": lambda weights: signed(in_int8(weights)[0]), "scales": lambda weights: in_int8(weights)[1]},
    ),
    adds="int8",
    why="half the bytes; a sign and seven bits become a bfloat16 by one product, as exactly as a bfloat16 holds them",
    lossy=lossy("rel_l2", at_most=2e-2),
    cost=of_bits(8),
    predict="1.6 to 2x: 0.47 GB in place of 0.94",
)
cuda.variant(
    in_registers(
        "int4",
        kernel="product<INT4, {columns_of_x}>",
        make={"codes": lambda weights: words_of(in_int4(weights)[0]), "scales": lambda weights: in_int4(weights)[1]},
    ),
    builds_on="int8",
    adds="int4",
    why="a quarter of the bytes, with a scale for 128 weights, because 16 levels hold no outlier of a row",
    lossy=lossy("rel_l2", at_most=0.16),
    cost=of_bits(4),
    predict="1.4 to 1.9x: 0.25 GB in place of 0.47, in a launch that takes 3 us to begin",
)
# Weights become bfloat16 without a conversion.
bench.sass("product", has=("LDG.128", "HMMA"), lacks=("I2F", "I2FP", "F2F"))
