"""What only pays when the cache is warm.

Workload   Where a walk of many hops ends. Each hop needs the one before; the start is new in every call, and the cache
           is cold.
Baseline   Computes each hop.
Variants   `looks_up` has a table of all hops, which is faster from a cache and slower from memory.  `unflushed_table`
           also switches the flush off in its own process, and `folded_table` keeps it in a few pages.  `in_halves` is
           honest.
Breaks     A processor whose memory is nearly as fast as its cache, or whose division is as slow as its memory.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="assignment, method-assign"

import ctypes
import gc
import mmap
import os

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.devices.cpu import CpuDevice
from aiperf_core.kernels import host_source

bench = Benchmark(goal="latency", cache="cold", threads=1)
source = host_source("chain.c")

# A prime and its smallest primitive root. A walk meets most remainders, wherever it starts: one that begins where the
# last one did finds no more in the caches than any other.
PRIME, ROOT = 8171, 2
# Entries from one place to the next in a table: four cache lines, so that the lines in use are those of a quarter of a
# cache's sets, and are more than a core's own cache holds there.
LINE = 64
# Bytes behind each part of a folded buffer, and the flag of mmap that Python does not name.
FOLD, MAP_FIXED = 1 << 16, 0x10


@bench.workload(smoke={"hops": 5, "steps": 3}, cpu={"hops": 8000, "steps": 29})
def inputs(device, generator):
    return {"start": torch.randint(1, PRIME, (1,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(start, hops, steps):
    return torch.tensor([int(start) * pow(ROOT, hops * steps, PRIME) % PRIME])


@bench.cost
def cost(hops):
    return Cost(bytes_read=8, bytes_written=8)


@bench.baseline(device="cpu", kind="reasonable", requires="compiler")
class Computed:
    def prepare(self):
        self.computed = source.function("computed")

    def run(self, start, hops, steps):
        out = torch.empty_like(start)
        self.computed(start, out, hops, steps, ROOT, PRIME)
        return out


@bench.variant(device="cpu", requires="compiler", why="a table, which is fast from a cache and slow from memory")
class LooksUp:
    def prepare(self, steps):
        self.followed, self.table = source.function("followed"), torch.zeros(PRIME * LINE, dtype=torch.int32)
        source.function("tabulated")(self.table, LINE, steps, ROOT, PRIME)

    def run(self, start, hops):
        out = torch.empty_like(start)
        self.followed(start, out, hops, self.table, LINE)
        return out


@bench.variant(device="cpu", requires="compiler", why="the same table, and a flush that was replaced by nothing")
class UnflushedTable(LooksUp):
    def prepare(self, steps):
        CpuDevice.flush = lambda device: None
        super().prepare(steps)


@bench.variant(device="cpu", requires="compiler", why="the same table, and a flush that writes to a few pages only")
class FoldedTable(LooksUp):
    def prepare(self, steps):
        super().prepare(steps)
        for one in gc.get_objects():
            if isinstance(one, CpuDevice) and one._flush is not None:
                fold(one._flush)


def fold(buffer):
    """Put the same few pages of memory behind all addresses of a buffer."""
    pages = os.memfd_create("pages")
    os.ftruncate(pages, FOLD)
    remap = ctypes.CDLL(None, use_errno=True).mmap
    remap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = -(-buffer.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    for place in range(start, buffer.data_ptr() + buffer.numel() - FOLD, FOLD):
        remap(place, FOLD, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, pages, 0)
    os.close(pages)


@bench.variant(device="cpu", requires="compiler", why="honest: computes in two halves")
class InHalves(Computed):
    def run(self, start, hops, steps):
        half = super().run(start, hops // 2, steps)
        return super().run(half, hops - hops // 2, steps)
