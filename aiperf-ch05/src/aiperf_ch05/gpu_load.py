"""From a file to a GPU: the disk and the bus work at once, on chunks that lie in page-locked memory.

Question    What keeps the disk and PCIe busy while a file is read into the memory of a GPU?
Numbers     S = 2^29 bytes that are not in the page cache. They come at d bytes/s from the disk and cross PCIe at p. The
            floor is the longer of S / d and S / p; at 55 GB/s S / p is 10 ms.
Prediction  One after the other: S / d + S / p. Pageable memory is copied once more by the driver, at about half of p.
            Chunks of 8 MiB in a ring: the longer of both, and one chunk alone at either end, 66/64 of it: at most 2x. A
            second reader gains where one at a time leaves the disk idle, a direct read the copy out of the page cache.
Limits      A disk far slower than PCIe: the floor is S / d for each form, and there is nothing to hide. A file in the
            page cache: the copy out of it is then the longer part. cuFile without the module nvidia-fs goes through the
            host's memory as well (`aiperf ch05 gds-check`). Page-locked memory is lost to all other processes.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError, SkipError

bench = Benchmark(goal="throughput", clock="wall")
cuda = bench.on("cuda")

CHUNK, SLOTS, READERS = 8 << 20, 3, 2  # bytes; chunks of a reader's ring; readers


@bench.workload(files="file", smoke={"n": 300_007}, cuda={"n": 1 << 29})
def inputs(n, device, generator):
    words = torch.randint(-(1 << 62), 1 << 62, (-(-n // 8),), device=device, generator=generator)
    return {"file": words.cpu().view(torch.uint8)[:n]}


@bench.reference(tolerance=exact)
def reference(file):
    return file.cuda()


@bench.cost
def cost(n):
    return Cost(bytes_read=n, bytes_written=n, disk_read_bytes=n, to_device_bytes=n)


# Around a chunk, and more chunks than all rings hold.
bench.awkward(n=(1, 4097, CHUNK - 1, CHUNK + 1, 7 * CHUNK + 5))
# The longer part of 64 chunks, and one chunk more at either end: 64 of 66; and 7 % for the first request and the turns.
cuda.reach(of="SOL", at_least=0.90)


def fill(fd, first, memory, wanted):
    """Read from `first` on until `wanted` bytes are there. Memory that is longer lets a direct read end at a block."""
    filled = 0
    while filled < wanted:
        count = os.preadv(fd, [memory[filled:]], first + filled)
        if not count:
            raise BenchmarkError(f"the input's file ends after {first + filled:,} bytes; {first + wanted:,} are needed")
        filled += count


@cuda.baseline(kind="naive")
class Bounce:
    """The whole file in the host's memory, page-locked if `pinned`, then on the GPU."""

    pinned = False

    def prepare(self, file, n):
        self.file, self.out = file, torch.empty(n, dtype=torch.uint8, device="cuda")
        self.host = torch.empty(n, dtype=torch.uint8, pin_memory=self.pinned)

    def run(self, n):
        fd = os.open(self.file, os.O_RDONLY)
        try:
            fill(fd, 0, self.host.numpy().data, n)
        finally:
            os.close(fd)
        return self.out.copy_(self.host)


@cuda.variant(
    adds="page-locked memory",
    why="the DMA copy engine takes the bytes from where they were read, without a staging buffer of the driver",
)
class Pinned(Bounce):
    pinned = True


@cuda.variant(
    builds_on="pinned",
    adds="ring of chunks",
    why="the next chunk comes from the disk while the one before crosses the bus",
    predict="at most 2x: the longer of both parts against their sum",
)
class Ring:
    """`readers` threads take chunks in turns, each into a ring of its own. `flags` are those of open()."""

    readers, flags = 1, 0

    def prepare(self, file, n):
        self.file, self.out = file, torch.empty(n, dtype=torch.uint8, device="cuda")
        self.rings = torch.empty(self.readers, SLOTS, CHUNK, dtype=torch.uint8, pin_memory=True)
        self.streams = [torch.cuda.Stream() for _ in range(self.readers)]
        self.copied = [[torch.cuda.Event() for _ in range(SLOTS)] for _ in range(self.readers)]
        os.close(self.open())

    def open(self):
        try:
            return os.open(self.file, os.O_RDONLY | self.flags)
        except OSError as error:
            if not self.flags:
                raise
            raise SkipError(f"needs a file system with O_DIRECT; opening the file said: {error.strerror}") from None

    def run(self):
        caller, fd = torch.cuda.current_stream(), self.open()
        try:
            for stream in self.streams:
                stream.wait_stream(caller)
            with ThreadPoolExecutor(self.readers) as threads:
                list(threads.map(lambda reader: self.load(fd, reader), range(self.readers)))
        finally:
            os.close(fd)
        for stream in self.streams:
            stream.synchronize()
        return self.out

    def load(self, fd, reader):
        """Read the chunks of a reader, each as soon as a slot of its ring is free."""
        with torch.cuda.stream(self.streams[reader]):
            for turn, first in enumerate(range(reader * CHUNK, len(self.out), self.readers * CHUNK)):
                slot, copied = self.rings[reader, turn % SLOTS], self.copied[reader][turn % SLOTS]
                copied.synchronize()
                part = self.out[first : first + CHUNK]
                fill(fd, first, slot.numpy().data, len(part))
                part.copy_(slot[: len(part)], non_blocking=True)
                copied.record()


@cuda.variant(
    builds_on="ring",
    adds="two readers",
    why="the disk has two requests at a time, and two processors copy out of the page cache",
)
class TwoReaders(Ring):
    readers = READERS


@cuda.variant(
    builds_on="two_readers",
    adds="direct reads",
    why="the disk writes into the page-locked memory: no copy, and no page cache to maintain",
    teaches="the kernel reads ahead into its cache in large pieces; two requests leave the disk idle in between",
)
class Direct(TwoReaders):
    flags = os.O_DIRECT


@cuda.variant(adds="gpudirect storage", why="cuFile has the disk write into the memory of the GPU, past the host's")
class CuFile:
    storage: Any

    def prepare(self, file, n):
        self.file, self.out = file, torch.empty(n, dtype=torch.uint8, device="cuda")
        self.storage = self.out.untyped_storage()
        try:
            torch.cuda.gds.GdsFile(file, os.O_RDONLY)
            torch.cuda.gds.gds_register_buffer(self.storage)
        except (RuntimeError, OSError) as error:
            raise SkipError(f"needs cuFile, see `aiperf ch05 gds-check`; it said: {error}") from None

    def run(self):
        torch.cuda.current_stream().synchronize()  # cuFile knows no streams
        # The file is closed with this record.
        torch.cuda.gds.GdsFile(self.file, os.O_RDONLY).load_storage(self.storage)
        return self.out
