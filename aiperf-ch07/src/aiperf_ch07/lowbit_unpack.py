"""Packed weights: wide accesses, and bits in place of conversions.

Workload   bfloat16 weights from packed ones of `bits` 4 (0 to 15, less 8, two a byte) or 8 (e4m3), times a bfloat16
           scale for every 128 of them.
Baseline   A byte a thread, so that each lane loads one byte and stores two or four (cpu: a byte after the other).
Variants   `wide`: eight weights a thread, stored in one 16-byte access (cpu: a group at a time, in SIMD).
           `by_bits` (cuda): prmt and lop3 write the weights into the last bits of a bfloat16, two at once.
Breaks     Memory is the bound as soon as stores are wide; fewer instructions then only leave room for other work, such
           as the product that should take the weights without ever writing them. On sm_89 and later e4m3 has a
           conversion of its own, and bits win nothing over it. `by_bits` needs scales below 256.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("lowbit_unpack.cu")
host_code = host_source("lowbit_unpack.c")

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


class Kernel:
    """Launches the kernel for weights of so many bits."""

    name = ""
    per_thread = 0  # weights; the baseline takes those of a byte

    def prepare(self, scales, n, bits):
        self.out, self.kernel = scales.new_empty(n), device_code.kernel(f"{self.name}{bits}")
        self.blocks = -(-n // ((self.per_thread or 8 // bits) * THREADS))

    def run(self, packed, scales, n):
        self.kernel(packed, scales, self.out, n, grid=self.blocks, block=THREADS)
        return self.out


class HostLoop:
    """Calls the loop for weights of so many bits."""

    name = ""

    def prepare(self, scales, n, bits):
        self.out, self.loop = scales.new_empty(n), host_code.function(f"{self.name}{bits}")

    def run(self, packed, scales, n):
        self.loop(packed, scales.view(torch.uint16), self.out.view(torch.uint16), n)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="byte")
class Byte(Kernel):
    name = "byte"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="wide",
    why="eight weights leave a thread in one 16-byte store, and four times that is under way in each",
)
class Wide(Kernel):
    name, per_thread = "wide", 32


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="by_bits",
    builds_on="wide",
    why="prmt, lop3 and two fma make two weights at once, where each had a shift, two conversions and a product",
)
class ByBits(Kernel):
    name, per_thread = "by_bits", 32


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="byte")
class ByteLoop(HostLoop):
    name = "byte"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="wide",
    why="a group of 128 has one scale and a loop of fixed length, of which sixteen steps are one SIMD instruction",
)
class WideLoop(HostLoop):
    name = "wide"


@bench.yardstick(
    device=("cpu", "cuda"), name="torch", why="torch's operations, with an array in memory between each two"
)
def torch_operations(packed, scales, n, bits):
    return reference(packed, scales, n, bits)
