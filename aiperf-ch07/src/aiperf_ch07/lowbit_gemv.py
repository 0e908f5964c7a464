"""Packed weights in a product: reading x again for each row costs more than reading the weights.

Question    How near to the bytes of 4-bit weights comes a product with one vector, and what stands between?
Numbers     y = W x, x float32, W 2^15 x 2^15 of four bits (0 to 15, less 8, two a byte), a bfloat16 scale for 128 of a
            row: 0.55 GB, 0.12 ms at the rate of a read. Unpacked first: 0.55 read, 2.1 written, 2.1 read, 4.9 GB. 132
            SMs at 1.8 GHz issue 3e13 instructions of lanes a second: 0.036 ms for each instruction a weight.
Prediction  4.9 / 0.55 = 8.8x at most from fusion. Memory is the bound up to 3.3 instructions a weight. Machine code has
            6.3 with eight weights a load (0.23 ms), 3.7 with 32 (0.13 ms), 1.8 with sums in tensor cores (0.06 ms).
            Each weight meets 4 bytes of x for half a byte of its own, so that L1 is the bound if x comes from there.
Limits      Scales are powers of two, so that weights are exact in bfloat16 for the baseline. From some 16 vectors on,
            weights are better unpacked to shared memory once for all. Below 16 warps of 16 rows an SM (34,000 rows on
            132 SMs), too few bytes are in flight, and warps must share rows.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("lowbit_gemv.cu"), host_source("lowbit_gemv.c")
UNPACK = "eights<ByBits4, 4>"
unpack_device = cuda_source("lowbit_unpack.cu", instances=(UNPACK,))
unpack_host = host_source("lowbit_unpack.c")

GROUP, THREADS = 128, 256
WARPS = THREADS // 32


@bench.workload(
    smoke={"rows": 61, "columns": 384},
    cpu={"rows": 8192, "columns": 8192},
    cuda={"rows": 32768, "columns": 32768},
)
def inputs(rows, columns, device, generator):
    if columns % GROUP:
        raise BenchmarkError(f"lowbit_gemv was asked for {columns} columns; accepted are multiples of {GROUP}")
    draw = {"device": device, "generator": generator}
    return {
        "packed": torch.randint(256, (rows, columns // 2), dtype=torch.uint8, **draw),
        "scales": (2.0 ** torch.randint(-8, 1, (rows, columns // GROUP), **draw)).to(torch.bfloat16),
        "x": torch.randn(columns, **draw),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(packed, scales, x):
    y = []
    for rows, scale in zip(packed.split(1024), scales.split(1024), strict=True):
        q = torch.stack((rows & 15, rows >> 4), 2).view(*scale.shape, GROUP).to(x.dtype) - 8
        y.append((q * scale[:, :, None].to(x.dtype)).flatten(1) @ x)
    return torch.cat(y)


@bench.cost
def cost(rows, columns):
    n = rows * columns
    return Cost(bytes_read=n / 2 + 2 * n / GROUP + 4 * columns, bytes_written=4 * rows, flops=2 * n)


# Never one row: a sum that cancels to nearly nothing would be the whole output, which no relative error can judge.
bench.awkward(*({"rows": rows, "columns": columns} for rows, columns in ((7, 128), (13, 256), (130, 1152))))
cuda.reach(of="RBW", at_least=0.75)  # 0.12 ms / 0.75 = 0.16 ms, of which tensor cores need 0.06 ms to issue
bench.sass("fused", has=("LDG.32", "PRMT"), lacks="HMMA")
bench.sass("wide", has=("LDG.128", "FFMA"), lacks=("PRMT", "HMMA"), arch="sm_90")  # on sm_80 a PRMT converts each scale
bench.sass("tensor_cores", has=("LDG.128", "HMMA", "HFMA2.BF16_V2"))


def product(packed, x):
    """Memory for the product."""
    return x.new_empty(packed.shape[0])


@cuda.baseline(kind="reasonable")
class UnpackThenMultiply:
    def prepare(self, packed, scales, x, rows, columns):
        self.weights, self.y = scales.new_empty(rows, columns), product(packed, x)
        self.unpack, self.multiply = unpack_device.kernel(UNPACK), device_code.kernel("product")

    def run(self, packed, scales, x, rows, columns):
        n = rows * columns
        self.unpack(packed, scales, self.weights, n, grid=-(-n // (32 * THREADS)), block=THREADS)
        self.multiply(self.weights, x, self.y, rows, columns, grid=-(-rows // WARPS), block=THREADS)
        return self.y


in_registers = launch(device_code, make={"y": product}, returns="y", grid=blocks(rows=16 * WARPS), block=THREADS)

cuda.variant(
    in_registers("fused", grid=blocks(rows=WARPS)),
    adds="fusion",
    why="weights are never written: half a byte is read for each, where the baseline moves four bytes more",
    predict="at most 5.2x: 1.2 ms of bytes, counted as reads and a fill, become 0.23 ms of instructions",
)
cuda.variant(
    in_registers("wide", kernel="wide<2, 4, false>"),
    builds_on="fused",
    adds="wide loads",
    why="a lane has 32 weights of a group in one load, and takes 3.7 instructions a weight in place of 6.3",
    predict="at most 1.7x: 6.3 / 3.7, if instructions were the bound",
    teaches="instructions are not the bound: x comes from L1 as before, and `staged` shows what that costs",
)
cuda.variant(
    in_registers("staged", kernel="wide<2, 4, true>"),
    builds_on="wide",
    adds="shared memory",
    why="x lies in shared memory, in banks that four lanes read at once, and eight rows of a warp share each read",
    predict="at least 1.1x: loads of x have no tags to look up, and no longer wait in line with those of weights",
)
cuda.variant(
    in_registers("tensor_cores", kernel="tensor_cores<4>"),
    builds_on="staged",
    adds="tensor cores",
    why="x is exactly the sum of three bfloat16, three of the eight columns of a product of matrices: 1.8 instructions",
    predict="at most 2.1x: 3.7 / 1.8 instructions a weight",
)


@cpu.baseline(kind="reasonable", name="unpack_then_multiply")
class UnpackThenMultiplyLoop:
    def prepare(self, packed, scales, x, rows, columns):
        self.weights, self.y = torch.empty(rows, columns, dtype=torch.uint16), product(packed, x)
        self.unpack, self.multiply = unpack_host.function("wide4"), host_code.function("product")

    def run(self, packed, scales, x, rows, columns):
        self.unpack(packed, scales.view(torch.uint16), self.weights, rows * columns)
        self.multiply(self.weights, x, self.y, rows, columns)
        return self.y


@cpu.variant(adds="fusion", why="weights are never written: half a byte is read for each, and stays in registers")
class Fused:
    def prepare(self, packed, x):
        self.halves, self.y, self.loop = torch.empty_like(x), product(packed, x), host_code.function("fused")

    def run(self, packed, scales, x, rows, columns):
        self.loop(packed, scales.view(torch.uint16), x, self.halves, self.y, rows, columns)
        return self.y
