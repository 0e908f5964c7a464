"""Huge pages: a random access is fast only as far as the TLB reaches.

Workload   The sum of `reads` random words of a table of n 64-bit words; which words is new in every call.
Baseline   The table in pages of 4 KiB: the TLB knows some thousand of them, a few MiB, and most reads first walk the
           page tables, which are memory too.
Variants   `huge`: the same table in pages of 2 MiB, of which a TLB entry reaches 512 times as far.  `huge_prefetched`:
           and the words that come 16 reads later are asked for now.
Breaks     Tables that the TLB reaches anyway, and reads in order, of which a page serves 512. Huge pages are cleared
           and kept whole: memory that is used here and there takes more. A processor that has many reads under way by
           itself leaves less to prefetching.
"""

import mmap

import torch

from aiperf_ch03.pages import refuse_without_huge_pages
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed", clock="wall")
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


class Table:
    """A copy of the table in pages of one kind, made once as an index built ahead, and a loop over it."""

    loop, advice = "", 0

    def prepare(self, table, index):
        self.table = mmap.mmap(-1, table.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.table.madvise(self.advice)
        self.words = torch.frombuffer(self.table, dtype=torch.int64)
        self.words.copy_(table)
        self.out, self.sum = torch.empty(1, dtype=torch.int64), host_code.function(self.loop)

    def run(self, index):
        self.sum(self.words, index, self.out, len(index))
        return self.out


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="small")
class Small(Table):
    loop, advice = "sum", mmap.MADV_NOHUGEPAGE


@bench.variant(
    device="cpu",
    requires="compiler",
    name="huge",
    why="an entry of the TLB reaches 2 MiB, and a walk is a level shorter",
)
class Huge(Table):
    loop, advice = "sum", mmap.MADV_HUGEPAGE

    def prepare(self, table, index):
        refuse_without_huge_pages()
        super().prepare(table, index)


@bench.variant(
    device="cpu",
    requires="compiler",
    name="huge_prefetched",
    builds_on="huge",
    why="sixteen reads are under way at once, whatever the processor finds in its own window",
)
class HugePrefetched(Huge):
    loop = "sum_prefetched"
