"""First touch: the kernel hands out a page when it is first written, and that is part of the write.

Question    What does the first write to fresh memory cost, beyond the bytes that are written?
Numbers     2^25 words of 8 bytes, first + i * step: 256 MiB. A fresh mapping, as malloc makes it for a large block, has
            no pages yet. With pages of 4 KiB that is 65,536 traps into the kernel, which finds, clears and maps a page
            in each: 256 MiB of zeros beside the words. Pages of 2 MiB need 128 traps for as many zeros; memory of the
            call before needs neither.
Prediction  A trap costs t, 4 KiB of zeros z, 4 KiB of words w. Reuse gains at most (t + z + w) / w, huge pages at most
            (t + z + w) / (z + w): 4.5x and 2.2x for a trap of 1 us and 10 GB/s, by which z and w are 0.4 us.
            Mapping ahead takes a trap from each page and no zero.
Limits      Where the kernel gives huge pages to everybody (`always`), the baseline has them too. A pool keeps memory
            that others could use; its gain ends where blocks come and go in more sizes than it keeps.
            Giving memory back costs as well, and is not timed here.
"""

import mmap

import torch

from aiperf_ch03.pages import refuse_small_pages, refuse_without_huge_pages
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="latency", clock="wall")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("first_touch.c")

WORD_BYTES = 8


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25})
def inputs(device, generator):
    line = torch.randint(-(1 << 40), 1 << 40, (2,), device=device, generator=generator)
    line[1] |= 1  # no two words in a row are the same
    return {"line": line}


@bench.reference(tolerance=exact)
def reference(line, n):
    return line[0] + line[1] * torch.arange(n)


@bench.cost
def cost(n):
    return Cost(bytes_read=2 * WORD_BYTES, bytes_written=WORD_BYTES * n, flops=2 * n)


# One word; less than a page, exactly one, and one word more; a prime; more than a huge page.
bench.awkward(n=(1, 511, 512, 513, 65537, 1 << 19))
# One thread writes, so the rate of all processors is no goal: without t and z, half the time is left at most.
cpu.reach(of="time:on_demand", at_most=0.50, implementation="pooled")
cpu.reach(of="time:on_demand", at_most=0.50, implementation="huge_pages")


def mapped(n, flags=0):
    """Untouched pages for n words; the kernel gets them back with the last tensor that uses them."""
    return mmap.mmap(-1, WORD_BYTES * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)


def words(pages):
    """The words in these pages, as a tensor."""
    return torch.frombuffer(pages, dtype=torch.int64)


@cpu.baseline(kind="naive")
class OnDemand:
    def prepare(self, n):
        self.n, self.write = n, host_code.function("ramp")

    def memory(self):
        """Where a call writes to."""
        return words(mapped(self.n))

    def run(self, line):
        out = self.memory()
        self.write(line, out, self.n)
        return out


@cpu.variant(
    adds="one call for all pages",
    why="one call into the kernel for all pages, instead of a trap each",
    teaches="zeros of a page that is mapped in its trap are in the cache when its words follow; 256 MiB ahead are not",
)
class Populated(OnDemand):
    def memory(self):
        return words(mapped(self.n, mmap.MAP_POPULATE))


@cpu.variant(
    adds="two threads",
    why="two processors clear pages at once, each in a half of its own",
    predict="at most 2x: half of the traps and zeros each, and the words by one thread as before",
    teaches="zeros that were made ahead have left the cache, and both threads trap into one address space",
)
class TwoThreads(OnDemand):
    def prepare(self, n):
        super().prepare(n)
        if torch.get_num_threads() < 2:
            raise SkipError("needs 2 processors (1 is usable here)")
        self.touch = host_code.function("touch")

    def memory(self):
        out = super().memory()
        self.touch(out, self.n, mmap.PAGESIZE // WORD_BYTES)
        return out


@cpu.variant(adds="huge pages", why="a trap for each 2 MiB, where small pages take 512 of them")
class HugePages(OnDemand):
    def prepare(self, n):
        super().prepare(n)
        refuse_without_huge_pages()
        pages = self.pages()
        words(pages).zero_()
        refuse_small_pages(pages)

    def pages(self):
        """A fresh mapping that may lie in huge pages."""
        pages = mapped(self.n)
        pages.madvise(mmap.MADV_HUGEPAGE)
        return pages

    def memory(self):
        return words(self.pages())


@cpu.variant(
    adds="reused memory",
    why="the pages of the last call are still mapped: no trap, no clearing",
    predict="at least 2x: a page of the baseline costs a trap and 4 KiB of zeros beside 4 KiB of words",
)
class Pooled(OnDemand):
    def prepare(self, n):
        super().prepare(n)
        self.kept = words(mapped(n))

    def memory(self):
        return self.kept
