"""NUMA: a page lies at the node of the thread that wrote it first, and is read from there ever after.

Question    An array is filled by one thread and used by the threads of all nodes. What do pages at the wrong node cost?
Numbers     out = b + s c of 2^26 float32 values, 805 MB, by a thread on each processor. Pages lie where they are first
            written: those of one thread all at its node, whose memory then serves all threads, and the threads of other
            nodes through the link between the nodes.
Prediction  With two nodes the memory of both has twice the rate of that of one: at most 2x, and as much again as the
            link takes. Pages in turn use both memories, with every other access remote; pages that the thread which
            uses them wrote first have no remote access at all.
Limits      A single node, where all memory is local: the target is skipped. A kernel that balances (`numa_balancing`)
            moves pages after a while, at a cost of its own. Work that is split differently each time has no right
            node: pages in turn are the best there. A node that is full gives its pages to others.
"""

import mmap
import os

import torch

from aiperf_ch03.numa_audit import node_cpus
from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.errors import SkipError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("numa_locality.c")

LEAST_NODES = 2
PAGE_FLOATS = mmap.PAGESIZE // 4
SEEN_PAGES = 256  # of the whole memory, of which the node is asked
MISPLACED = 0.1  # part of them that may lie elsewhere


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 26})
def inputs(device, generator):
    return {"scale": torch.rand(1, device=device, generator=generator)}


@bench.static
def given(n, device, generator):
    return {name: torch.randn(n, device=device, generator=generator) for name in ("b", "c")}


@bench.reference(tolerance=fp32)
def reference(b, c, scale):
    return b + scale * c


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=2 * n, precision="fp32")


# A value; a page, and a value more; fewer pages than threads.
bench.awkward(n=(1, PAGE_FLOATS, PAGE_FLOATS + 1, 3 * PAGE_FLOATS + 5))
# Two memories in place of one are at most twice the rate.
cpu.reach(of="speedup", at_least=1.5, implementation="touched_by_users")


def usable_nodes():
    """The processors of each node that this process may use."""
    usable = os.sched_getaffinity(0)
    nodes = {node: [number for number in numbers if number in usable] for node, numbers in node_cpus().items()}
    return {node: numbers for node, numbers in nodes.items() if numbers}


@cpu.baseline(kind="naive")
class TouchedByOne:
    """The arrays in memory of their own, whose pages `place` puts somewhere."""

    def prepare(self, b, c, n):
        nodes = usable_nodes()
        if len(nodes) < LEAST_NODES:
            raise SkipError(f"needs {LEAST_NODES} NUMA nodes with processors ({len(nodes)} usable here)")
        if host_code.threads is None:
            raise SkipError("needs a C compiler with OpenMP")
        self.nodes, self.owners = list(nodes), [node for node, numbers in nodes.items() for _ in numbers]
        self.processors = torch.tensor([number for numbers in nodes.values() for number in numbers])
        pitch = -(-n // PAGE_FLOATS) * PAGE_FLOATS
        pages = mmap.mmap(-1, 3 * 4 * pitch, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page may belong to two threads
        self.memory = torch.frombuffer(pages, dtype=torch.float32)
        self.place(self.memory.split(pitch))
        self.refuse_misplaced()
        for own, values in zip(self.memory.split(pitch), (b, c), strict=False):
            own[:n].copy_(values)
        self.out = self.memory[2 * pitch : 2 * pitch + n]
        self.sizes = (n, pitch, self.processors, len(self.processors))
        self.triad = host_code.function("triad")

    def place(self, arrays):
        """Write all pages for the first time."""
        for array in arrays:
            host_code.call("touch", array, len(array), self.processors[:1], 1)

    def expected(self, place):
        """The nodes at which a page may lie, by its place in its array, from 0 to 1."""
        return self.nodes[:1]

    def refuse_misplaced(self):
        """Raise `SkipError` where the kernel took many pages from other nodes than it was to."""
        count = min(SEEN_PAGES, len(self.memory) // PAGE_FLOATS)
        stride = len(self.memory) // PAGE_FLOATS // count * mmap.PAGESIZE
        seen = torch.full((count,), -1, dtype=torch.int32)
        if error := host_code.call("nodes_of", self.memory, stride, seen, count):
            raise SkipError(f"needs to see where pages lie; the kernel refuses it ({os.strerror(error)})")
        places = [3 * number * stride / self.memory.nbytes % 1 for number in range(count)]
        wrong = sum(node not in self.expected(place) for node, place in zip(seen.tolist(), places, strict=True))
        if wrong > MISPLACED * count:
            raise SkipError(f"needs free memory at the nodes; {wrong} of {count} pages lie elsewhere")

    def run(self, scale):
        self.triad(self.memory, scale, *self.sizes)
        return self.out


@cpu.variant(
    adds="pages in turn",
    why="the memories of all nodes serve all threads, though with two nodes every other access is remote",
    predict="at least 1.2x: two memories in place of one, and as many remote accesses in all",
)
class Interleaved(TouchedByOne):
    def place(self, arrays):
        nodes = torch.tensor(self.nodes)
        if error := host_code.call("interleave", self.memory, self.memory.nbytes, nodes, len(nodes)):
            raise SkipError(f"needs a memory policy; the kernel refuses it ({os.strerror(error)})")
        super().place(arrays)

    def expected(self, place):
        return self.nodes


@cpu.variant(
    adds="first touch by the user",
    why="each thread writes first what it will use, so its pages lie at its node and no access is remote",
    predict="at least 1.5x: two memories in place of one, and no remote access",
)
class TouchedByUsers(TouchedByOne):
    def place(self, arrays):
        for array in arrays:
            host_code.call("touch", array, len(array), self.processors, len(self.processors))

    def expected(self, place):
        return [self.owners[int(place * len(self.owners))]]
