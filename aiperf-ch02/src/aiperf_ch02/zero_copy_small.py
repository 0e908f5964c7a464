"""Zero copy: a kernel reads a small input in the host's memory sooner than a copy of it has begun.

Question    Up to which size is an input of the host better read over PCIe in place than copied first?
Numbers     256 requests, one after another: 1024 float32 values of the host times weights of the device, 4 KiB, and the
            host waits for each result. Launch and wait take t, 8 to 10 us; 4 KiB take 0.08 us at 55 GB/s.
Prediction  Copied: t + c + n / 55 GB/s, where c, 2 to 4 us, is the copy's call, its start and the kernel's wait for
            it. In place: t + r + n / 50 GB/s, where r, 1 to 1.5 us, is one read over the bus, whose packets of 128
            bytes carry as much header as the copy engine's of 256. Both are equal where n (1/50 - 1/55) = c - r: at
            1 MB, if c - r is 2 us.
Limits      Above that size the copy is 10 % faster (`--size huge`). Values that a kernel reads k times cross the bus k
            times, unless L2 keeps them. Too few threads leave the bus idle: 55 GB/s x 1.5 us are 80 KB in flight.
"""

from typing import Any

import torch

from aiperf_ch02.host_transfer import Registered as Transfer
from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm", subject="host")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("zero_copy_small.cu")

THREADS = 256


@bench.workload(
    floor={"n": 1},
    smoke={"n": 61, "requests": 3},
    cuda={"n": 1 << 10, "requests": 256},
    tiny={"n": 16, "requests": 256},
    medium={"n": 1 << 14, "requests": 256},
    large={"n": 1 << 18, "requests": 64},
    huge={"n": 1 << 22, "requests": 16},
)
def inputs(n, device, generator):
    return {"w": torch.rand(n, device=device, generator=generator) + 0.5}


@bench.static
def data(n, requests, device, generator):
    return {"x": torch.randn(requests, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, w):
    return x * w


@bench.cost
def cost(n, requests):
    moved = 4 * n * requests
    return Cost(
        bytes_read=4 * n,
        bytes_written=moved,
        to_device_bytes=moved,
        flops=n * requests,
        launches=requests,
        tokens=requests,
    )


# One value and one request; rows of odd lengths, whose addresses are no multiples of 16; more than a block.
bench.awkward(*({"n": n, "requests": requests} for n, requests in ((1, 1), (255, 2), (257, 5), (4099, 3))))
# A launch and its wait of 5 us or more, and a read over the bus of 1.5 us: (5 + 1.5) / 5.
cuda.reach(of="time:resident", at_most=1.3, implementation="mapped")
for size in ("tiny", "cuda", "medium"):
    cuda.reach(of="time:copied", at_most=0.95, size=size, implementation="mapped")
# On the other side of the crossover: 55 GB/s of the copy engine against 50 GB/s of reads.
cuda.reach(of="time:mapped", at_most=1.0, size="huge", implementation="copied")


@cuda.baseline(kind="reasonable")
class Copied:
    """Requests one after another: the input goes to a place on the GPU, and the kernel reads it there."""

    def prepare(self, x, w):
        self.x, self.out = self.memory(x), torch.empty_like(x)
        self.place = torch.empty_like(x[0])
        self.calls, kernel = Recording(), device_code.kernel("scaled")
        shape: dict[str, Any] = {"grid": -(-len(w) // THREADS), "block": THREADS}
        for source, out in zip(self.x, self.out, strict=True):
            self.calls.launch(kernel, self.brought(source).data_ptr(), w, out, len(w), **shape)
            self.calls.finish()

    def memory(self, x):
        """The inputs in memory of the host that the GPU reaches."""
        return torch.empty(x.shape, pin_memory=True).copy_(x)

    def brought(self, source):
        """Where the kernel reads an input."""
        self.calls.copy(self.place, source)
        return self.place

    def run(self):
        self.calls.play()
        return self.out


@cuda.variant(
    adds="zero copy",
    why="the kernel reads the host's page-locked memory over PCIe: no call, no start and no wait of a copy",
    predict="1.05 to 1.4x: one read of 1 to 1.5 us in place of 2 to 4 us for a copy, beside a launch and a wait of 10",
)
class Mapped(Copied):
    def brought(self, source):
        return source


@cuda.variant(
    builds_on="mapped",
    adds="page locking in place",
    why="memory that is there already is page-locked where it is: its address is valid on the GPU, too",
    predict="0.95 to 1.05x: the same reads over the same bus",
    teaches="it is the lock that lets a kernel reach memory, whoever allocated it",
)
class Registered(Mapped):
    def memory(self, x):
        self.locked = Transfer()  # whose end takes the lock off
        return self.locked.memory(x.numel()).view(x.dtype).view(x.shape).copy_(x)


@cuda.yardstick(why="the floor: inputs that are in the GPU's memory already leave a launch and a wait")
class Resident(Mapped):
    def memory(self, x):
        return x.clone()


bench.sass("scaled", has=("LDG", "STG"))
