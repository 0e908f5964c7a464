"""Allocation: memory that a stream gives back to itself needs neither the driver nor a wait.

Workload   Rounds on several streams (cpu: on one thread). A round needs scratch memory of the size of x: one kernel
           writes x times a factor into it, and another adds it to the stream's total.
Baseline   Each round asks the system for its scratch memory, and returns it at once. cuda: cuMemAlloc and cuMemFree, of
           which the second waits until the GPU has done all work on all streams.  cpu: mmap and munmap; the system
           clears the pages of each round anew.
Variants   cuda: `stream_ordered`: cuMemAllocAsync and cuMemFreeAsync are operations of the stream, served by a pool.
           `kept_pool`: the pool keeps its memory beyond the end of a call, where it returned it before.
           cpu: `pool`: what a round gives back serves the next one.
           `preallocated`: one buffer for each stream, made ahead. The yardstick `caching` is torch's allocator.
Breaks     Rounds that take far longer than an allocation. A pool keeps what nobody else can use then; memory that goes
           from stream to stream needs an event in between, in a pool as well.
"""

import os
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import cuda_driver, cuda_source, host_source

bench = Benchmark(goal="speed", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("stream_ordered_alloc.cu"), host_source("stream_ordered_alloc.c")

THREADS = 256
FOREVER = (1 << 64) - 1  # bytes that a pool keeps


@bench.workload(
    smoke={"rounds": 5, "streams": 2, "n": 1021},
    cpu={"rounds": 24, "streams": 1, "n": 1 << 17},
    cuda={"rounds": 100, "streams": 8, "n": 1 << 12},
    large={"rounds": 20, "streams": 8, "n": 1 << 24},
)
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, rounds, streams):
    total = torch.zeros(streams, len(x), device=x.device)
    for number in range(rounds):
        total += x * factor(number)
    return total


@bench.cost
def cost(rounds, streams, n):
    return Cost(bytes_read=4 * n, bytes_written=4 * streams * n, flops=2 * rounds * streams * n)


bench.awkward(
    {"rounds": 1, "streams": 1, "n": 1}, {"rounds": 3, "streams": 9, "n": 257}, {"rounds": 7, "streams": 1, "n": 70001}
)
cuda.reach(of="time:preallocated", at_most=1.1, implementation="kept_pool")


def factor(number):
    """What a round multiplies by; both signs, so that each of them counts."""
    return (-1) ** number / (1 + number)


class Rounds:
    """Two kernels a round on each stream; the streams take turns, so that all are busy.

    take(place, stream): the address of memory for a round. Each implementation has its own.
    """

    take: Any

    def prepare(self, x, streams, n):
        self.driver, self.bytes = cuda_driver(), 4 * n
        self.scale, self.add = device_code.kernel("scale"), device_code.kernel("add")
        self.totals = x.new_empty(streams, n)
        self.streams = [torch.cuda.Stream() for _ in range(streams)]
        self.make_ready()

    def make_ready(self):
        """Called once, when the streams are there."""

    def run(self, x, rounds, n):
        caller = torch.cuda.current_stream()
        self.totals.zero_()
        for stream in self.streams:
            stream.wait_stream(caller)
        shape = {"grid": -(-n // THREADS), "block": THREADS}
        for number in range(rounds):
            for place, (stream, total) in enumerate(zip(self.streams, self.totals, strict=True)):
                with torch.cuda.stream(stream):
                    scratch = self.take(place, stream.cuda_stream)
                    self.scale(x, scratch, factor(number), n, **shape)
                    self.add(total, scratch, n, **shape)
                    self.give_back(scratch, stream.cuda_stream)
        for stream in self.streams:
            caller.wait_stream(stream)
        return self.totals

    def give_back(self, scratch, stream):
        """Called when the round's kernels are launched."""

    def said(self, result):
        """The results of a call of the driver without its status. Raises `KernelError` if it failed."""
        status, *found = result
        if int(status):
            raise KernelError(f"a call of the driver failed with CUDA's error {int(status)}")
        return int(found[0]) if found else None


@cuda.baseline(kind="naive", name="from_system")
class FromDriver(Rounds):
    def take(self, place, stream):
        return self.said(self.driver.cuMemAlloc(self.bytes))

    def give_back(self, scratch, stream):
        self.said(self.driver.cuMemFree(scratch))


@cuda.variant(
    adds="stream-ordered allocation",
    why="memory is free when the stream comes to it: no other stream waits, nor does the host",
)
class StreamOrdered(Rounds):
    def make_ready(self):
        status, supported = self.driver.cuDeviceGetAttribute(
            self.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, torch.cuda.current_device()
        )
        if int(status) or not supported:
            raise SkipError("needs a GPU and a driver with memory pools")

    def take(self, place, stream):
        return self.said(self.driver.cuMemAllocAsync(self.bytes, stream))

    def give_back(self, scratch, stream):
        self.said(self.driver.cuMemFreeAsync(scratch, stream))


@cuda.variant(
    builds_on="stream_ordered",
    adds="kept pool",
    why="by default a pool returns its memory where the host waits, and the next call asks for it again",
)
class KeptPool(StreamOrdered):
    def make_ready(self):
        super().make_ready()
        driver = self.driver
        status, pool = driver.cuDeviceGetDefaultMemPool(torch.cuda.current_device())
        if int(status):
            raise KernelError(f"the device's memory pool was not found: CUDA's error {int(status)}")
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self.said(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(FOREVER)))


@cuda.variant(
    adds="preallocation", why="nothing is asked for: a stream uses its own buffer in every round", name="preallocated"
)
class Buffers(Rounds):
    def make_ready(self):
        self.buffers = torch.empty_like(self.totals)
        self.addresses = [buffer.data_ptr() for buffer in self.buffers]

    def take(self, place, stream):
        return self.addresses[place]


@cuda.yardstick(why="torch.empty in each round: torch's caching allocator")
class Caching(Rounds):
    def take(self, place, stream):
        self.tensor = torch.empty_like(self.totals[place])
        return self.tensor.data_ptr()


class Loops:
    """The rounds as a loop in C."""

    loop = ""

    def prepare(self, x, rounds, streams):
        self.total, self.rounds = x.new_empty(streams, len(x)), host_code.function(self.loop)
        self.factors = torch.tensor([factor(number) for number in range(rounds)])
        self.scratch = torch.zeros_like(x)

    def run(self, x, rounds, n):
        for total in self.total.zero_():
            failed = self.rounds(x, total, self.factors, *self.given(), rounds, n)
            if failed:
                raise OSError(failed, f"memory for a round: {os.strerror(failed)}")
        return self.total

    def given(self):
        """Further arguments of the loop."""
        return ()


@cpu.baseline(kind="naive")
class FromSystem(Loops):
    loop = "from_system"


@cpu.variant(adds="pool", why="pages are cleared and mapped in the first round, and not again in the others")
class Pool(Loops):
    loop = "pool"


@cpu.variant(adds="preallocation", why="nothing is asked for: every round uses the same buffer")
class Preallocated(Loops):
    loop = "preallocated"

    def given(self):
        return (self.scratch,)
