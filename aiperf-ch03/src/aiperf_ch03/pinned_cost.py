"""Page-locking: a lock is worth its time if many transfers use it.

Question    What does it cost to lock memory for a transfer, and when is it worth that?
Numbers     8 buffers of 64 MiB leave a GPU and come back: 1.2 ms a buffer and way at 55 GB/s. Locking one means for
            each of 16,384 pages: clear a new one, count it as locked, and enter it into the tables of the GPU. On a CPU
            4 buffers of 16 MiB are copied there and back, and the lock is mlock.
Prediction  A page costs some 0.1 to 0.5 us to clear and lock: 2 to 8 ms a buffer in each use, beside 2.4 ms on the bus.
            Locked once, only the bus is left: at least 1.5x. A buffer that is used once is better not locked at all.
Limits      Locked memory is lost to all other programs, and limited (`ulimit -l`). Small buffers: the calls count, not
            the pages. Where buffers come and go in many sizes, a pool keeps the largest of each.
"""

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from functools import partial

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError

bench = Benchmark(goal="throughput", clock="wall")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda")


@bench.workload(smoke={"buffers": 3, "n": 4099}, cpu={"buffers": 4, "n": 1 << 22}, cuda={"buffers": 8, "n": 1 << 24})
def inputs(buffers, n, device, generator):
    return {"a": torch.rand(buffers, n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a.view(torch.int32).clone()  # other words than the input, so that the input itself is no answer


@bench.cost
def cost(buffers, n):
    size = 4 * buffers * n
    return Cost(bytes_read=size, bytes_written=size, from_device_bytes=size, to_device_bytes=size)


# A value; around a page.
bench.awkward({"n": 1}, {"n": 1023}, {"n": 1025, "buffers": 1})
# Each value crosses the bus twice, one direction after the other.
cuda.reach(of="PCI", at_least=0.95 / 2, implementation="locked_once")
# Half of the time without the locks, as the prediction has it.
cpu.reach(of="speedup", at_least=1.5, implementation="locked_once")


def fresh(n):
    """Memory for n values, whose pages are not there yet; the kernel gets them back with the last tensor."""
    return torch.frombuffer(mmap.mmap(-1, 4 * n), dtype=torch.int32)


class Lock:
    """Locks memory until `release`, or until it is gone. Raises `SkipError` where the driver or the kernel refuses."""

    def __init__(self, host, on_gpu):
        undo: Callable[[], object]
        place, size = host.data_ptr(), host.nbytes
        if on_gpu:
            driver = torch.cuda.cudart()
            refused = int(driver.cudaHostRegister(place, size, 0))
            reason = f"cudaHostRegister ends with error {refused}"
            undo = partial(driver.cudaHostUnregister, place)
        else:
            libc = ctypes.CDLL(None, use_errno=True)
            where = ctypes.c_void_p(place), ctypes.c_size_t(size)
            refused = libc.mlock(*where)
            reason = f"{os.strerror(ctypes.get_errno())}; ulimit -l shows the limit"
            undo = partial(libc.munlock, *where)
        if refused:
            raise SkipError(f"needs {size >> 10} KiB of locked memory ({reason})")
        self.release = weakref.finalize(host, undo)
        self.release.atexit = False  # the kernel takes the lock off with the process


class Transfers:
    """Buffers that leave the device and come back."""

    def prepare(self, a, n):
        self.n, self.on_gpu = n, a.is_cuda
        self.back = torch.empty_like(a, dtype=torch.int32)
        self.open()

    def open(self):
        """Make what all transfers use."""

    def run(self, a):
        for values, back in zip(a.view(torch.int32), self.back, strict=True):
            self.transfer(values, back)
        return self.back

    def transfer(self, values, back):
        """Have one buffer leave and come back."""
        self.move(values, fresh(self.n), back)

    def move(self, values, host, back):
        """There and back through memory of the host, in the order of the stream."""
        host.copy_(values, non_blocking=True)
        back.copy_(host, non_blocking=True)


@both.baseline(kind="naive")
class LockedEachTime(Transfers):
    def open(self):
        Lock(fresh(self.n), self.on_gpu).release()  # or there is a reason to skip

    def transfer(self, values, back):
        host = fresh(self.n)
        lock = Lock(host, self.on_gpu)
        self.move(values, host, back)
        if self.on_gpu:
            torch.cuda.current_stream().synchronize()  # the bus is done with it
        lock.release()


@both.variant(
    adds="no lock",
    why="a buffer for one use: the driver copies through a buffer of its own that is locked already",
    teaches="a lock of fresh memory makes its pages in one call, which is faster than a trap for each page",
)
class NeverLocked(Transfers):
    pass


@both.variant(
    adds="one lock",
    why="the pages of one buffer are made and locked once, in place, and every transfer uses them",
    predict="at least 1.5x: no page is made or locked in a call, which takes as long as the copies at least",
)
class LockedOnce(Transfers):
    def open(self):
        self.host = fresh(self.n)
        Lock(self.host, self.on_gpu)

    def transfer(self, values, back):
        self.move(values, self.host, back)


@cuda.variant(
    adds="pool",
    why="torch's allocator of locked memory keeps what was freed, so that a request costs a lock the first time only",
    predict="at least 1.5x: no page is made or locked in a call, which takes as long as the copies at least",
)
class Pooled(Transfers):
    def transfer(self, values, back):
        self.move(values, torch.empty(self.n, dtype=torch.int32, pin_memory=True), back)
