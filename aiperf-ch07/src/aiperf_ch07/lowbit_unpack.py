"""Packed weights: wide accesses, and bits in place of conversions.

Question    What bounds the unpacking of 4-bit weights: the instructions of each weight, or its loads and stores?
Numbers     2^30 weights of `bits` 4 (0 to 15, less 8, two a byte) or 8 (e4m3) to bfloat16, times a bfloat16 scale for
            every 128 of them: 0.5 bytes read and 2 written for a weight, 2.7 GB in all. A thread with a byte stores 4
            bytes at a time: four times the store instructions of 16-byte accesses.
Prediction  At most 4x from 16-byte stores, where they were the bound; then memory is. A conversion of a weight takes 3
            to 4 instructions, prmt and lop3 make two at once: no gain where memory is the bound.
Limits      sm_89 and later have a conversion of e4m3, and bits win nothing over it. `by_bits` needs scales below 256.
            Fewer instructions leave room for other work, such as the product in `ch07.lowbit_gemv`.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("lowbit_unpack.cu"), host_source("lowbit_unpack.c")

GROUP, THREADS = 128, 256


@bench.workload(
    smoke={"n": 4099, "bits": 4},
    cpu={"n": 1 << 26, "bits": 4},
    cuda={"n": 1 << 30, "bits": 4},
    fp8={"n": 1 << 30, "bits": 8},
)
def inputs(n, bits, device, generator):
    if bits not in (4, 8):
        raise BenchmarkError(f"lowbit_unpack was asked for weights of {bits} bits; accepted are 4 and 8")
    draw = {"device": device, "generator": generator}
    packed = torch.randint(256, (-(-n * bits // 8),), dtype=torch.uint8, **draw)
    if bits == 8:
        packed[packed & 127 == 127] = 0  # all bits set are NaN in e4m3
    scales = 2 ** (8 * torch.rand(-(-n // GROUP), **draw) - 8)
    return {"packed": packed, "scales": scales.to(torch.bfloat16)}


@bench.reference(tolerance=exact)
def reference(packed, scales, n, bits):
    if bits == 4:
        values = torch.stack((packed & 15, packed >> 4), 1).view(-1)[:n].to(torch.float32) - 8
    else:
        values = packed.view(torch.float8_e4m3fn).to(torch.float32)
    return (values * scales.to(torch.float32).repeat_interleave(GROUP)[:n]).to(torch.bfloat16)


@bench.cost
def cost(n, bits):
    return Cost(bytes_read=-(-n * bits // 8) + 2 * -(-n // GROUP), bytes_written=2 * n, flops=n)


bench.awkward(*({"n": n, "bits": bits} for n in (1, 7, 8, 127, 129, 8192, 1000003) for bits in (4, 8)))
cuda.reach(of="BW", at_least=0.90)
cuda.reach(of="BW", at_least=0.90, size="fp8")


def weights(scales, n):
    """Memory for the weights."""
    return scales.new_empty(n)


unpack = launch(device_code, out=weights, block=THREADS, grid=blocks(n=8 * THREADS))


class HostLoop:
    """Calls the loop for weights of `bits` bits, which takes bfloat16 as 16-bit words."""

    name = ""

    def prepare(self, scales, n, bits):
        self.out, self.loop = weights(scales, n), host_code.function(f"{self.name}{bits}")

    def run(self, packed, scales, n):
        self.loop(packed, scales.view(torch.uint16), self.out.view(torch.uint16), n)
        return self.out


def a_byte_each(n, bits):
    """A thread for each byte."""
    return -(-n * bits // (8 * THREADS))


cuda.baseline(unpack("byte", kernel="byte{bits}", grid=a_byte_each), kind="naive")
cuda.variant(
    unpack("wide", kernel="eights<ByArithmetic{bits}, 1>"),
    adds="wide stores",
    why="eight weights leave a thread in one 16-byte store, where a byte left in stores of 2 or 4",
)
cuda.variant(
    unpack("unrolled", kernel="eights<ByArithmetic{bits}, 4>", grid=blocks(n=32 * THREADS)),
    builds_on="wide",
    adds="unrolling",
    why="a thread has four loads under way before its first store",
)
cuda.variant(
    unpack("by_bits", kernel="eights<ByBits{bits}, 4>", grid=blocks(n=32 * THREADS)),
    builds_on="unrolled",
    adds="bit tricks",
    why="prmt, lop3 and two fma make two weights at once, where each had a shift, two conversions and a product",
    teaches="memory is the bound as soon as stores are wide: fewer instructions only leave room for other work",
)


@cpu.baseline(kind="naive")
class Byte(HostLoop):
    name = "byte"


@cpu.variant(
    adds="simd",
    why="a group of 128 has one scale and a loop of fixed length, which the compiler makes SIMD instructions",
)
class Wide(HostLoop):
    name = "wide"


@bench.yardstick(
    device=("cpu", "cuda"), name="torch", why="torch's operations, with an array in memory between each two"
)
def torch_operations(packed, scales, n, bits):
    return reference(packed, scales, n, bits)
