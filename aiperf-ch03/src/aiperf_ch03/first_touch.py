"""First touch: the kernel hands out a page when it is first written, and that is part of the write.

Workload   Write n 64-bit words, first + i * step, into memory of the caller's own.
Baseline   A fresh mapping, as malloc makes it for a large block: the first write to each page is a trap into the
           kernel, which finds a page, clears it and maps it.
Variants   `populated`: one call maps all pages ahead (MAP_POPULATE).  `two_threads`: two threads touch a word of each
           page before the write.  `huge_pages`: pages of 2 MiB (MADV_HUGEPAGE); skipped where a mapping gets none, by
           the kernel's own count (smaps).  `pooled`: the memory of the call before, whose pages are there already.
Breaks     Where the kernel gives huge pages to everybody (`always`), the baseline has them too. A pool keeps memory
           that others could use; its gain ends where blocks come and go in so many sizes that it cannot keep them.
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
cpu.reach(of="WBW", at_least=0.90, implementation="pooled")
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


@cpu.variant(adds="one call for all pages", why="one call into the kernel for all pages, instead of a trap each")
class Populated(OnDemand):
    def memory(self):
        return words(mapped(self.n, mmap.MAP_POPULATE))


@cpu.variant(adds="two threads", why="two processors clear pages at once, each in a half of its own")
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


@cpu.variant(adds="reused memory", why="the pages of the last call are still mapped: no trap, no clearing")
class Pooled(OnDemand):
    def prepare(self, n):
        super().prepare(n)
        self.kept = words(mapped(n))

    def memory(self):
        return self.kept
