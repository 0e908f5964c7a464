"""Host transfers: a copy engine reaches page-locked memory only.

Question    At which share of the bus does memory of the host come and go, by the kind of its pages?
Numbers     2^26 float32 values to the host and back, as activations that are offloaded: 268 MB each way, one direction
            after the other, 9.7 ms at 55 GB/s of PCIe 5. They are read as int32, so that the input itself is no answer.
Prediction  Pageable memory goes piece by piece through a small page-locked buffer of the driver, at the rate of one
            core that copies, 10 to 25 GB/s: 2 to 5x from page-locked memory. `staged` ends in ordinary memory at nearly
            that rate.
Limits      Small copies take less time on the bus than their calls. Page-locked memory is lost to all others on the
            host, and making it takes far longer than a copy: it pays where it is used many times.
"""

import mmap
import weakref

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import KernelError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall")
cuda, cpu = bench.on("cuda"), bench.on("cpu")
host_code = host_source("host_transfer.c")

PIECE = 4 << 20  # values in a buffer of `staged`: 16 MiB


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 24}, cuda={"n": 1 << 26})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a.view(torch.int32).clone()


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, from_device_bytes=4 * n, to_device_bytes=4 * n)


# A value; around a page; three pieces, of which the last is not full.
bench.awkward(n=(1, 1023, 1025, 2 * PIECE + 3))
# The values cross the bus twice, one direction after the other in these forms, so half of its rate is the most.
cuda.reach(of="PCI", at_least=0.95 / 2, implementation="pinned")
cuda.reach(of="PCI", at_least=0.85 / 2, implementation="staged")
cpu.reach(of="speedup", at_least=1.3, implementation="streamed")


def words_like(a):
    """Memory for the values on their device."""
    return torch.empty_like(a, dtype=torch.int32)


@cuda.baseline(kind="naive")
class Pageable:
    """There and back through `host`, in the order of the device's stream."""

    def prepare(self, a):
        self.host, self.back = self.memory(len(a)), words_like(a)

    def memory(self, n):
        """Memory of the host, whose pages are there."""
        return torch.zeros(n, dtype=torch.int32)

    def run(self, a):
        self.host.copy_(a.view(torch.int32), non_blocking=True)
        return self.back.copy_(self.host, non_blocking=True)


@cuda.variant(
    adds="page-locked memory",
    why="the copy engine reads and writes pages that the kernel cannot move, without a copy by the processor",
)
class Pinned(Pageable):
    def memory(self, n):
        return torch.zeros(n, dtype=torch.int32, pin_memory=True)


@cuda.variant(
    adds="page locking in place",
    why="it is the lock that counts, not the allocation: memory that is there already is locked and made known",
)
class Registered(Pageable):
    def memory(self, n):
        host = super().memory(n)
        driver = torch.cuda.cudart()
        failed = driver.cudaHostRegister(host.data_ptr(), host.nbytes, 0)
        if int(failed):
            raise KernelError(f"cudaHostRegister of {host.nbytes} bytes failed with error {int(failed)}")
        # Keeps the memory until the lock is taken off. At the end of the process the driver does that itself.
        weakref.finalize(self, lambda: driver.cudaHostUnregister(host.data_ptr())).atexit = False
        return host


@cuda.variant(
    adds=("page-locked buffers", "overlapped copies"),
    why="the bus is busy with one buffer while the processors, which are faster together, move the other",
)
class Staged(Pageable):
    def prepare(self, a):
        super().prepare(a)
        self.parts, self.targets = self.host.split(PIECE), self.back.split(PIECE)
        self.buffers = [self.host.new_empty(min(PIECE, len(a)), pin_memory=True) for _ in range(2)]
        self.done = [torch.cuda.Event() for _ in range(2)]  # with the buffer, as far as the bus is concerned

    def run(self, a):
        sources = a.view(torch.int32).split(PIECE)
        for number, source in enumerate(sources):
            # Its last piece, the one before the last, was moved out in the round before.
            self.buffer(number).copy_(source, non_blocking=True)
            self.done[number % 2].record()
            if number:
                self.move_out(number - 1)
        self.move_out(len(sources) - 1)
        for number, part in enumerate(self.parts):
            self.done[number % 2].synchronize()
            self.buffer(number).copy_(part)
            self.targets[number].copy_(self.buffer(number), non_blocking=True)
            self.done[number % 2].record()
        return self.back

    def buffer(self, number):
        """The buffer of a piece, as much of it as the piece takes."""
        return self.buffers[number % 2][: len(self.parts[number])]

    def move_out(self, number):
        """Wait until a piece has come, and move it to its place."""
        self.done[number % 2].synchronize()
        self.parts[number].copy_(self.buffer(number))


@cpu.baseline(kind="naive")
class Fresh:
    def prepare(self, a):
        self.back = words_like(a)

    def memory(self, n):
        """Memory for the values; the kernel takes its pages back with the last tensor that uses them."""
        return torch.frombuffer(mmap.mmap(-1, 4 * n), dtype=torch.int32)

    def run(self, a):
        return self.back.copy_(self.memory(len(a)).copy_(a.view(torch.int32)))


@cpu.variant(adds="reused memory", why="the pages of the last call are still mapped: no trap, and nothing to clear")
class Reused(Fresh):
    def prepare(self, a):
        super().prepare(a)
        self.kept = super().memory(len(a))

    def memory(self, n):
        return self.kept


@cpu.variant(
    requires=("compiler", "machine:x86_64"),
    builds_on="reused",
    adds="non-temporal stores",
    why="stores that bypass the cache do not read a line before they overwrite it: 8 bytes a value and way, not 12",
)
class Streamed(Reused):
    def prepare(self, a):
        super().prepare(a)
        self.copy = host_code.function("streamed")

    def run(self, a):
        self.copy(a, self.kept, len(a))
        self.copy(self.kept, self.back, len(a))
        return self.back
