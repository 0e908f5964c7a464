"""Reading a file: a disk wants large requests, and several at once.

Question    What keeps a disk busy while a file is read once, from its start to its end?
Numbers     2^28 bytes that are not in the page cache, and the sums of their 64-bit words by pieces of 64 KiB. By 4 KiB
            they are 65,536 system calls, by 8 MiB 32. A request to the disk takes a limited number of pieces of memory
            (`queue/max_segments`): 8 MiB are 2048 small pages, or 4 of 2 MiB.
Prediction  One request at a time leaves the disk idle during the sums: S / d + S / m for S bytes, d of the disk and m
            of the sums in a second. Four at a time: the longer of the two, at most 2x; and up to 4x where a single
            request does not reach d. Fewer calls gain their own time, and no more where the kernel reads ahead of them.
Limits      A file that is in the page cache is not limited by the disk. `queue/read_ahead_kb` of some MiB makes large
            requests out of small calls, 128 KiB do not. `direct` may lose to reads through the page cache: the kernel
            reads ahead of the program there, into memory that it joins to large pieces. Direct reads leave nothing in
            the cache: a second read costs as much as the first. A container may forbid io_uring.
"""

import errno
import mmap
import os

import numpy
import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("file_read.c")

PIECE_BYTES = 1 << 16
SMALL, LARGE = 4096, 8 << 20
HUGE_PAGE = 2 << 20
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


# Less than a word; around a piece, a page and a request; more than the queue holds.
bench.awkward(n=(1, 7, 4096, 65535, 65537, LARGE - 1, 4 * LARGE + 8))
cpu.reach(of="DISK", at_least=0.90)


class Reading:
    """Reads by calls of `request` bytes, `queue` of them at a time; `flags` are those of open(), `loop` is in C."""

    request, queue, flags, loop = SMALL, 1, 0, "read_all"

    def prepare(self, file, n):
        self.file, self.n = file, n
        self.sums = torch.empty(-(-n // PIECE_BYTES), dtype=torch.int64)
        # Begins at a page, as direct reads require.
        self.buffer = self.memory(self.queue * self.request).zero_()
        self.read = host_code.function(self.loop)
        os.close(self.open())

    def memory(self, length):
        """Bytes of the process's own, in whole pages."""
        return torch.frombuffer(mmap.mmap(-1, length), dtype=torch.uint8)

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


@cpu.baseline(kind="naive")
class SmallRequests(Reading):
    pass


@cpu.variant(
    adds="large requests",
    why="a call for 2048 pages: the kernel is entered less often, and asks the disk for more at once",
    teaches="where the kernel reads some MiB ahead, the disk gets requests as large from calls of 4 KiB",
)
class LargeRequests(Reading):
    request = LARGE


@cpu.variant(adds="mapping", why="the pages of the cache themselves are read: nothing is copied")
class Mapped(Reading):
    def prepare(self, file, n):
        super().prepare(file, n)
        self.sum = host_code.function("sum_pieces")

    def run(self):
        file = self.open()
        try:
            # A tensor requires writable memory. No page is written, so no page is copied.
            pages = mmap.mmap(file, self.n, access=mmap.ACCESS_COPY)
        finally:
            os.close(file)
        pages.madvise(mmap.MADV_SEQUENTIAL)
        self.sum(torch.frombuffer(pages, dtype=torch.uint8), self.n, self.sums)
        return self.sums


@cpu.variant(
    builds_on="large_requests",
    adds="direct reads",
    why="the disk writes into the reader's own memory: no copy, and no page cache to maintain",
    teaches="the kernel reads ahead into its cache in large pieces; small pages cut a direct request into many",
)
class Direct(LargeRequests):
    flags = os.O_DIRECT

    def open(self):
        try:
            return super().open()
        except OSError as error:
            raise SkipError(f"needs a file system with O_DIRECT; opening the file said: {error.strerror}") from None


@cpu.variant(
    builds_on="direct",
    adds="huge pages",
    why="2 MiB of memory are one piece of a request, where small pages are 512: the disk gets few large requests",
)
class DirectHugePages(Direct):
    def memory(self, length):
        pages = mmap.mmap(-1, length + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        try:
            pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:
            raise SkipError(f"needs transparent huge pages; madvise said: {error.strerror}") from None
        buffer = torch.frombuffer(pages, dtype=torch.uint8)
        first = -buffer.data_ptr() % HUGE_PAGE
        return buffer[first : first + length]


@cpu.variant(
    builds_on="direct_huge_pages",
    adds="four threads",
    why="the disk always has the next requests, and sums are made while other threads wait",
)
class DirectThreads(DirectHugePages):
    queue = QUEUE


@cpu.variant(
    builds_on="direct_huge_pages",
    adds="asynchronous requests",
    why="one thread keeps the disk busy: it sums one buffer while the disk fills three others",
)
class IoUring(DirectHugePages):
    queue, loop = QUEUE, "read_ring"

    def prepare(self, file, n):
        super().prepare(file, n)
        if failed := host_code.function("refused_ring")():
            raise SkipError(
                f"needs io_uring; io_uring_setup said: {os.strerror(failed)} ({errno.errorcode.get(failed, failed)})"
            )


@cpu.yardstick(why="numpy.fromfile, then the sums")
class Fromfile(Mapped):
    def run(self):
        self.sum(torch.from_numpy(numpy.fromfile(self.file, dtype=numpy.uint8)), self.n, self.sums)
        return self.sums
