"""Reading a file: a disk wants large requests, and several at once.

Workload   A file of n bytes that is not in the page cache, read once from its start to its end: the sum of its 64-bit
           words, for each piece of 64 KiB.
Baseline   read() of 4 KiB at a time: a system call for each page, and one request to the disk after the other, as far
           ahead as the kernel reads by itself.
Variants   `large_requests`: 1 MiB a call.  `mapped`: no calls; the pages are read as they are touched, further ahead
           than usual (MADV_SEQUENTIAL).  `direct`: past the page cache (O_DIRECT), so that nothing is
           copied.  `direct_queue`: four threads of that, which keep four requests with the disk.
Breaks     A file that is in the page cache already, which no disk limits. A disk whose limit is reached by one request
           after the other. Direct reads leave nothing in the cache: who reads twice pays twice.
"""

import mmap
import os

import numpy
import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall")
host_code = host_source("file_read.c")

PIECE_BYTES = 1 << 16
SMALL, LARGE = 4096, 1 << 20
QUEUE = 4


@bench.workload(files="file", smoke={"n": 300_007}, cpu={"n": 1 << 28})
def inputs(n, device, generator):
    words = torch.randint(-(1 << 62), 1 << 62, (-(-n // 8),), device=device, generator=generator)
    return {"file": words.view(torch.uint8)[:n]}


@bench.reference(tolerance=exact)
def reference(file):
    whole = len(file) // PIECE_BYTES * PIECE_BYTES
    last = torch.nn.functional.pad(file[whole:], (0, -len(file) % PIECE_BYTES))
    pieces = [part.view(torch.int64).view(-1, PIECE_BYTES // 8).sum(1) for part in (file[:whole], last)]
    return torch.cat(pieces)


@bench.cost
def cost(n):
    return Cost(bytes_read=n, bytes_written=8 * -(-n // PIECE_BYTES), flops=n / 8, disk_read_bytes=n)


class Reading:
    """Reads by calls of `request` bytes each, `queue` of them at a time; `flags` are those of open()."""

    request, queue, flags = SMALL, 1, 0

    def prepare(self, file, n):
        self.file, self.n = file, n
        self.sums = torch.empty(-(-n // PIECE_BYTES), dtype=torch.int64)
        # Whole pages, where direct reads must begin.
        self.buffer = torch.frombuffer(mmap.mmap(-1, self.queue * self.request), dtype=torch.uint8).zero_()
        self.read = host_code.function("read_all")
        os.close(self.open())

    def open(self):
        return os.open(self.file, os.O_RDONLY | self.flags)

    def run(self):
        file = self.open()
        try:
            failed = self.read(file, self.n, self.buffer, self.request, self.queue, self.sums)
        finally:
            os.close(file)
        if failed:
            raise OSError(failed, f"reading the input's file: {os.strerror(failed)}")
        return self.sums


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="small_requests")
class SmallRequests(Reading):
    pass


@bench.variant(
    device="cpu",
    requires="compiler",
    name="large_requests",
    why="a call for 256 pages: the kernel is entered less often, and asks the disk for more at once",
)
class LargeRequests(Reading):
    request = LARGE


@bench.variant(
    device="cpu",
    requires="compiler",
    name="mapped",
    why="the pages of the cache themselves are read: nothing is copied",
)
class Mapped(Reading):
    def prepare(self, file, n):
        super().prepare(file, n)
        self.sum = host_code.function("sum_pieces")

    def run(self):
        file = self.open()
        try:
            # A tensor wants memory that could be written; nobody does, so that no page is copied.
            pages = mmap.mmap(file, self.n, access=mmap.ACCESS_COPY)
        finally:
            os.close(file)
        pages.madvise(mmap.MADV_SEQUENTIAL)
        self.sum(torch.frombuffer(pages, dtype=torch.uint8), self.n, self.sums)
        return self.sums


@bench.variant(
    device="cpu",
    requires="compiler",
    name="direct",
    why="the disk writes into the reader's own memory: no copy, no cache to look after",
)
class Direct(LargeRequests):
    flags = os.O_DIRECT

    def open(self):
        try:
            return super().open()
        except OSError as error:
            raise SkipError(f"needs a file system with O_DIRECT; opening the file said: {error.strerror}") from None


@bench.variant(
    device="cpu",
    requires="compiler",
    name="direct_queue",
    builds_on="direct",
    why="the disk always has the next requests, and sums are made while others wait",
)
class DirectQueue(Direct):
    queue = QUEUE


@bench.yardstick(device="cpu", requires="compiler", name="fromfile", why="numpy.fromfile, then the sums")
class FromFile(Mapped):
    def run(self):
        self.sum(torch.from_numpy(numpy.fromfile(self.file, dtype=numpy.uint8)), self.n, self.sums)
        return self.sums
