"""Huge pages: a random access is fast only as far as the TLB reaches.

Question    What does a random read cost beside its line, where the TLB does not reach the table?
Numbers     2^22 random words of a table of 2^26, 512 MiB: 131,072 pages of 4 KiB, or 256 of 2 MiB. A TLB of 2048
            entries reaches 8 MiB of small pages, 1.6 % of the table, and all of it in huge ones. Other reads first walk
            the page tables, whose last level is 1 MiB of 8 bytes a page; a word of 8 bytes then takes a line of 64.
Prediction  Where a walk takes w and a read m, huge pages gain (m + w) / m: 1.3x if w is a third of m, and more in a
            virtual machine, whose walks walk the tables of its host, too. Prefetching gains less without huge pages:
            a prefetch waits for its walk as well, and a processor has few walks under way.
Limits      Where the kernel gives huge pages to everybody (`always`), the baseline has them too. Tables that the TLB
            reaches anyway, 8 MiB here, and reads in order, of which a page serves 512. Huge pages are cleared and kept
            whole: memory that is used here and there takes more. A processor that has many reads under way by itself
            leaves less to prefetching.
"""

import mmap

import torch

from aiperf_ch03.pages import refuse_small_pages, refuse_without_huge_pages, reserved
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed", clock="wall")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("huge_pages.c")

WORD_BYTES = 8


@bench.workload(smoke={"reads": 1021, "n": 4099}, cpu={"reads": 1 << 22, "n": 1 << 26})
def inputs(reads, n, device, generator):
    return {"index": torch.randint(n, (reads,), device=device, generator=generator)}


@bench.static
def given(n, device, generator):
    return {"table": torch.randint(-(1 << 62), 1 << 62, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(table, index):
    return table[index].sum().reshape(1)


@bench.cost
def cost(reads, n):
    # A word comes with its line of 64 bytes; where there are more reads than lines, each line at least once.
    return Cost(bytes_read=min(64 * reads, WORD_BYTES * n) + 8 * reads, bytes_written=8, flops=reads)


# Reads: fewer than are prefetched, exactly as many, and more than the table has words.
sizes = ((1, 1), (15, 7), (16, 512), (17, 100_003), (5003, 11))
bench.awkward(*({"reads": reads, "n": n} for reads, n in sizes))
cpu.reach(of="speedup", at_least=1.3, implementation="huge")
cpu.reach(of="speedup", at_least=2.0, implementation="huge_prefetched")


@cpu.baseline(kind="naive")
class OnDemand:
    """A copy of the table in pages of one kind, made once as an index built ahead, and a loop over it."""

    loop = "sum"

    def prepare(self, table, index):
        self.pages = self.mapped(table.nbytes)
        self.words = torch.frombuffer(self.pages, dtype=torch.int64, count=len(table))
        self.words.copy_(table)
        self.out, self.sum = torch.empty(1, dtype=torch.int64), host_code.function(self.loop)

    def mapped(self, length):
        """Memory for the table."""
        return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def run(self, index):
        self.sum(self.words, index, self.out, len(index))
        return self.out


@cpu.variant(
    adds="software prefetch",
    why="sixteen reads are asked for ahead, each of them after its walk of the page tables",
    teaches="a prefetch needs a translation, too: the walks are what is waited for, and a prefetch adds none",
)
class Prefetched(OnDemand):
    loop = "sum_prefetched"


@cpu.variant(
    adds="huge pages",
    why="an entry of the TLB reaches 2 MiB, and a walk is a level shorter",
    predict="at least 1.3x: 98 % of the reads walk the page tables, of which the TLB reaches 1.6 %",
)
class Huge(OnDemand):
    def prepare(self, table, index):
        refuse_without_huge_pages()
        super().prepare(table, index)
        refuse_small_pages(self.pages)

    def mapped(self, length):
        pages = super().mapped(length)
        pages.madvise(mmap.MADV_HUGEPAGE)
        return pages


@cpu.variant(adds="reserved huge pages", why="the same reach, from pages that were set aside and are never split")
class Reserved(OnDemand):
    def mapped(self, length):
        return reserved(length)


@cpu.variant(
    builds_on="huge",
    adds="software prefetch",
    why="sixteen reads are under way at once, whatever the processor finds in its own window",
    teaches="a window of some hundred instructions holds sixteen reads of so short a loop by itself",
)
class HugePrefetched(Huge):
    loop = "sum_prefetched"
