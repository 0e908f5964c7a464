"""Packed weights in a product: unpack them in registers.

Workload   y = W x for one vector x of float32, as in the decoding of a language model. W has weights of four bits (0 to
           15, less 8, two a byte) and a bfloat16 scale for every 128 of them in a row: a power of two, so that
           weights are exact in bfloat16, and the answer is judged as a sum of float32.
Baseline   The weights are unpacked to bfloat16 in memory as in `ch07.lowbit_unpack`, and multiplied there.
Variants   `fused`: the product unpacks the weights that it uses, in registers.  `four_rows` (cuda): a warp has four
           rows, for which it loads x once. What it teaches: on an H200 this loses to `fused`, whose warps find x in L1
           anyway.
Breaks     Products with many vectors: unpacked weights are then used often, and tensor cores want them in shared
           memory. The prediction from bytes is 9 (4.5 bytes a weight against 0.5); the arithmetic of unpacking, about
           three instructions a weight, leaves less.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("lowbit_gemv.cu"), host_source("lowbit_gemv.c")
unpack_device, unpack_host = cuda_source("lowbit_unpack.cu"), host_source("lowbit_unpack.c")

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
cuda.reach(
    of="speedup",
    at_least=4,
    cause="the SMs convert half-bytes and read x from L1 again for each row, so that memory waits for them",
    shown_by="counter:sm__throughput,dram__throughput,l1tex__t_sector_hit_rate",
)


def product(packed, x):
    """Memory for the product."""
    return x.new_empty(packed.shape[0])


@cuda.baseline(kind="reasonable")
class UnpackThenMultiply:
    def prepare(self, packed, scales, x, rows, columns):
        self.weights, self.y = scales.new_empty(rows, columns), product(packed, x)
        self.unpack, self.multiply = unpack_device.kernel("by_bits4"), device_code.kernel("product")

    def run(self, packed, scales, x, rows, columns):
        n = rows * columns
        self.unpack(packed, scales, self.weights, n, grid=-(-n // (32 * THREADS)), block=THREADS)
        self.multiply(self.weights, x, self.y, rows, columns, grid=-(-rows // WARPS), block=THREADS)
        return self.y


rows_of_warps = launch(device_code, make={"y": product}, returns="y", grid=blocks(rows=WARPS), block=THREADS)

cuda.variant(
    rows_of_warps("fused"),
    adds="fusion",
    why="weights are never written: half a byte is read for each, where the baseline moves four bytes more",
)
cuda.variant(
    rows_of_warps("four_rows", grid=blocks(rows=4 * WARPS)),
    builds_on="fused",
    adds="register reuse",
    why="x is loaded from L1 once for four rows, and four independent loads of weights are under way",
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
