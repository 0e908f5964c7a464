"""Unified memory: move it in bulk before it is needed, not page by page when it is.

Question    What do page faults cost, and what is left of them when the driver moves all pages at once?
Numbers     In each of 4 rounds the host adds 7 to 2^24 int32 values and the device multiplies them by 5: 67 MB cross
            the bus twice a round, 1.2 ms each way at 55 GB/s of PCIe 5.
Prediction  Faults move some pages each and are waited for. A prefetch to the device runs at the rate of the bus; one to
            the host must allocate, clear and map its pages, 10 to 20 GB/s. Explicit copies between pinned memory and
            the device move no pages: 2 to 4x below prefetches.
Limits      Values of which each side needs a few: then faults move only these. Managed memory that is larger than the
            device's is moved back and forth without end, and can stop a machine: here it has 64 MiB at most.
"""

import ctypes
import weakref

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.graphs import done
from aiperf_core.kernels import cuda_driver

bench = Benchmark(goal="latency", clock="wall")
cuda = bench.on("cuda")

WORD_BYTES, MOST_BYTES = 4, 64 << 20
TERM, FACTOR = 7, 5


@bench.workload(smoke={"n": 4099, "rounds": 3}, cuda={"n": 1 << 24, "rounds": 4})
def inputs(n, device, generator):
    return {"a": torch.randint(1 << 20, (n,), device=device, generator=generator).int()}


@bench.reference(tolerance=exact)
def reference(a, rounds):
    for _ in range(rounds):
        a = (a + TERM) * FACTOR
    return a


@bench.cost
def cost(n, rounds):
    moved = WORD_BYTES * n * rounds
    return Cost(
        bytes_read=WORD_BYTES * n,
        bytes_written=WORD_BYTES * n,
        from_device_bytes=moved,
        to_device_bytes=moved,
        flops=2 * n * rounds,
    )


# A value; around a page, and more than the 2 MiB that a driver moves at once.
bench.awkward(*({"n": n, "rounds": rounds} for n, rounds in ((1, 1), (1023, 2), (1025, 3), (786433, 2))))
# Pages of the host are allocated, cleared and mapped at a quarter of the rate of the bus.
cuda.reach(of="time:explicit", at_most=4, implementation="prefetched")


class Managed:
    """Managed memory for n int32 values as a tensor of the device and one of the host; freed with its owner."""

    def __init__(self, n, owner):
        self.bytes = WORD_BYTES * n
        if self.bytes > MOST_BYTES:
            raise SkipError(f"manages {MOST_BYTES >> 20} MiB at most; {n} values take {self.bytes / (1 << 20):.1f} MiB")
        self.driver, self.number = cuda_driver(), torch.cuda.current_device()
        torch.cuda.current_stream()  # its context is this thread's then
        both = self.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        if not done(self.driver.cuDeviceGetAttribute(both, self.number)):
            raise SkipError("needs a GPU and a driver that move managed memory by page (concurrent managed access)")
        whole = int(self.driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        self.address = int(done(self.driver.cuMemAllocManaged(self.bytes, whole)))
        # Not at the end of the process, where the driver is gone.
        weakref.finalize(owner, self.driver.cuMemFree, self.address).atexit = False
        self.__cuda_array_interface__ = {
            "shape": (n,),
            "typestr": "<i4",
            "data": (self.address, False),
            "version": 3,
            "strides": None,
        }
        self.on_device = torch.as_tensor(self, device="cuda")
        self.on_host = torch.frombuffer((ctypes.c_int32 * n).from_address(self.address), dtype=torch.int32)

    def side(self, host):
        """The place of the memory: the host, or the current GPU."""
        place, kinds = self.driver.CUmemLocation(), self.driver.CUmemLocationType
        place.type = kinds.CU_MEM_LOCATION_TYPE_HOST if host else kinds.CU_MEM_LOCATION_TYPE_DEVICE
        place.id = 0 if host else self.number
        return place

    def prefetch(self, host):
        """Move the memory to a side, in the order of the current stream."""
        # With the bindings for CUDA 12, what takes a place has a name of its own.
        move = getattr(self.driver, "cuMemPrefetchAsync_v2", None) or self.driver.cuMemPrefetchAsync
        done(move(self.address, self.bytes, self.side(host), 0, torch.cuda.current_stream().cuda_stream))

    def advise(self, advice, host):
        """Tell the driver how the memory will be used."""
        tell = getattr(self.driver, "cuMemAdvise_v2", None) or self.driver.cuMemAdvise
        done(tell(self.address, self.bytes, getattr(self.driver.CUmem_advise, advice), self.side(host)))


@cuda.baseline(kind="naive")
class OnDemand:
    def prepare(self, a):
        self.memory, self.out = Managed(len(a), self), torch.empty_like(a)

    def move(self, host):
        """Get the memory ready for a side."""

    def run(self, a, rounds):
        here, there = self.memory.on_device, self.memory.on_host
        here.copy_(a)
        for _ in range(rounds):
            self.move(host=True)
            torch.cuda.current_stream().synchronize()  # the host must not touch what the device still uses
            there.add_(TERM)
            self.move(host=False)
            here.mul_(FACTOR)
        return self.out.copy_(here)


@cuda.variant(
    adds="prefetch",
    why="one order moves all pages, where faults move some each and are waited for",
)
class Prefetched(OnDemand):
    def move(self, host):
        self.memory.prefetch(host)


@cuda.variant(
    adds="access in place",
    why="nothing moves and nothing faults: the device reads and writes the host's memory, over the bus and only once",
)
class InPlace(OnDemand):
    def prepare(self, a):
        super().prepare(a)
        self.memory.advise("CU_MEM_ADVISE_SET_PREFERRED_LOCATION", host=True)
        self.memory.advise("CU_MEM_ADVISE_SET_ACCESSED_BY", host=False)
        self.memory.prefetch(host=True)
        torch.cuda.current_stream().synchronize()


@cuda.variant(
    adds="explicit copies",
    why="a copy engine moves the values between page-locked memory and the device, and no page changes its place",
)
class Explicit:
    def prepare(self, a):
        self.out = torch.empty_like(a)
        self.there = torch.empty(a.shape, dtype=a.dtype, pin_memory=True)

    def run(self, a, rounds):
        here = self.out.copy_(a)
        for _ in range(rounds):
            self.there.copy_(here, non_blocking=True)
            torch.cuda.current_stream().synchronize()
            self.there.add_(TERM)
            here.copy_(self.there, non_blocking=True)
            here.mul_(FACTOR)
        return here
