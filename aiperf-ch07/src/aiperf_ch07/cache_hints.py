"""Cache hints: protect the hot table from the stream.

Workload   out[i] = the sum of eight int32 of a table, named by a stream of indices: 32 bytes of stream an element, each
           read once, and a table of 24 MiB, which would fit in the L2 of a GPU if the stream did not pass through it.
Baseline   Loads and stores without a hint.
Variants   `past_l1`: the stream takes no lines of the L1.  `stream_first`: nor does it stay in L2: its lines are the
           first to be evicted.  `table_last`: the table's lines are the last.  `both`.
Breaks     Tables that are small against the cache, which stay there anyway, and ones that are larger than it. Each
           look-up moves a sector of 32 bytes from L2 for 4 of use, eight times the stream: L2 is what binds, and a hint
           can only win back what missed there.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("cache_hints.cu")

LOOKUPS, THREADS = 8, 256
MIB = (1 << 20) // 4  # elements


@bench.workload(
    smoke={"n": 4099, "entries": 1009},
    cuda={"n": 1 << 26, "entries": 24 * MIB},
    small={"n": 1 << 26, "entries": 4 * MIB},
    large={"n": 1 << 26, "entries": 256 * MIB},
)
def inputs(n, entries, device, generator):
    draw = {"device": device, "generator": generator, "dtype": torch.int32}
    return {
        "table": torch.randint(-(1 << 20), 1 << 20, (entries,), **draw),
        "index": torch.randint(entries, (n, LOOKUPS), **draw),
    }


@bench.reference(tolerance=exact)
def reference(table, index):
    return torch.index_select(table, 0, index.view(-1)).view(index.shape).sum(1, dtype=torch.int32)


@bench.cost
def cost(n, entries):
    # Of a table larger than the stream asks for, only a sector a look-up has to be read.
    table = min(4 * entries, 32 * LOOKUPS * n)
    return Cost(bytes_read=4 * LOOKUPS * n + table, bytes_written=4 * n, flops=(LOOKUPS - 1) * n)


class Kernel:
    """Launches a kernel in a grid that fills the chip."""

    name = ""

    def prepare(self, index):
        self.out, self.kernel = index.new_empty(index.shape[0]), device_code.kernel(self.name)
        # Blocks go on until the stream ends.
        self.blocks = min(-(-index.shape[0] // THREADS), grid_that_fills(self.kernel, THREADS))

    def run(self, table, index):
        self.kernel(table, index, self.out, index.shape[0], grid=self.blocks, block=THREADS)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="plain")
class Plain(Kernel):
    name = "plain"


@bench.variant(
    device="cuda", requires="sm_80", name="past_l1", why="the stream takes no lines of the L1 away from the table"
)
class PastL1(Kernel):
    name = "past_l1"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="stream_first",
    builds_on="past_l1",
    why="the stream's lines are the first that L2 evicts, and make room for each other, not in the table",
)
class StreamFirst(Kernel):
    name = "stream_first"


@bench.variant(device="cuda", requires="sm_80", name="table_last", why="the table's lines are the last that L2 evicts")
class TableLast(Kernel):
    name = "table_last"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="both",
    builds_on="stream_first",
    why="the table's lines are the last that L2 evicts, besides the stream's being the first",
)
class Both(Kernel):
    name = "both"


@bench.yardstick(
    device="cuda", name="index_select", why="torch.index_select and sum: the look-ups take a pass of their own"
)
class IndexSelect:
    def run(self, table, index):
        return torch.index_select(table, 0, index.view(-1)).view(index.shape).sum(1, dtype=torch.int32)
