"""Gather: random rows at full width.

Workload   out[i] = table[index[i]]: rows of 256 bfloat16 from a table of 2^22. With `skew` 0 every row of the table is
           equally likely, and none is drawn twice while there are enough; else row number k of a hidden order is drawn
           in proportion to k^-skew (Zipf), as words of a language are.
Baseline   cuda: a thread a row, so that the lanes of a warp are in 32 rows at once.  cpu: one row after the other.
Variants   cuda: `warp_per_row`: 32 lanes take the 32 pieces of a row.  `four_rows`: four rows a warp under way.
           `sorted`: in the order of the table, the sort included.  `bulk_rows`: the copy engine fetches rows.
           cpu: `prefetched`: rows are asked for eight rows ahead.
Breaks     Rows shorter than a line: then the sector, not the row, is what is fetched, and no order of lanes helps. A
           skewed draw finds its hot rows in the cache; its cost counts each row that is drawn once.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("gather.cu")
host_code = host_source("gather.c")

THREADS, WARP = 256, 32
# Of the copy engine's kernel: groups under way in a block, bytes of a group (if rows are no longer).
STAGES, GROUP_BYTES = 4, 4096


@bench.workload(
    smoke={"rows": 211, "table_rows": 1009, "width": 40, "skew": 0},
    cpu={"rows": 1 << 16, "table_rows": 1 << 17, "width": 256, "skew": 0},
    cuda={"rows": 1 << 20, "table_rows": 1 << 22, "width": 256, "skew": 0},
    zipf={"rows": 1 << 20, "table_rows": 1 << 22, "width": 256, "skew": 1},
)
def inputs(rows, table_rows, skew, device, generator):
    # Which row of the table is how popular, and, without skew, which rows are drawn.
    shuffled = torch.randperm(table_rows, device=device, generator=generator)
    if skew:
        draws = torch.rand(rows, device=device, generator=generator, dtype=torch.float64)
        ranks = torch.searchsorted(popularity(table_rows, skew, device).cumsum(0), draws)
        index = shuffled[ranks.clamp_(max=table_rows - 1)]
    elif rows <= table_rows:
        index = shuffled[:rows]
    else:
        index = torch.randint(table_rows, (rows,), device=device, generator=generator)
    return {"index": index.to(torch.int32)}


@bench.static
def weights(table_rows, width, device, generator):
    return {"table": torch.randn(table_rows, width, device=device, generator=generator).to(torch.bfloat16)}


@bench.reference(tolerance=exact)
def reference(table, index):
    return table[index.long()]


@bench.cost
def cost(rows, table_rows, width, skew):
    # Each row that is drawn has to be read once, however often it is drawn: with skew as many as are expected.
    read = min(rows, table_rows)
    if skew:
        read = float((-torch.expm1(rows * torch.log1p(-popularity(table_rows, skew, "cpu")))).sum())
    return Cost(bytes_read=2 * width * read + 4 * rows, bytes_written=2 * width * rows)


bench.reach(of="SOL", at_least=0.85)


def popularity(table_rows, skew, device):
    """The probability of each row to be drawn, the most popular first."""
    weights = torch.arange(1, table_rows + 1, device=device, dtype=torch.float64) ** -skew
    return weights / weights.sum()


def rows_like(table, index):
    """Memory for the rows that are gathered."""
    return torch.empty(index.shape[0], table.shape[1], dtype=table.dtype, device=table.device)


class Kernel:
    """Launches a kernel with so many threads for so many rows."""

    name = ""
    threads, per = 1, 1

    def prepare(self, table, index):
        self.out, self.kernel = rows_like(table, index), device_code.kernel(self.name)
        self.blocks = -(-index.shape[0] * self.threads // (self.per * THREADS))

    def run(self, table, index):
        self.kernel(table, index, self.out, *self.out.shape, grid=self.blocks, block=THREADS)
        return self.out


class HostLoop:
    """Calls a loop in C."""

    name = ""

    def prepare(self, table, index):
        self.out, self.loop = rows_like(table, index), host_code.function(self.name)

    def run(self, table, index):
        self.loop(table, index, self.out, *self.out.shape)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="thread_per_row")
class ThreadPerRow(Kernel):
    name = "thread_per_row"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="warp_per_row",
    why="the 32 lanes of a warp read 512 bytes in a row: whole sectors, each fetched once",
)
class WarpPerRow(Kernel):
    name, threads = "warp_per_row", WARP


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="four_rows",
    builds_on="warp_per_row",
    why="a row waits for its index, and the warp for both: four of them under way share that wait",
)
class FourRows(Kernel):
    name, threads, per = "four_rows", WARP, 4


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="sorted",
    why="rows are read in the order of the table, so that equal and neighbouring ones meet in the cache",
)
class Sorted:
    def prepare(self, table, index):
        self.out, self.kernel = rows_like(table, index), device_code.kernel("in_order")
        self.blocks = -(-index.shape[0] * WARP // (4 * THREADS))

    def run(self, table, index):
        in_order, order = torch.sort(index)
        self.kernel(table, in_order, order, self.out, *self.out.shape, grid=self.blocks, block=THREADS)
        return self.out


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="bulk_rows",
    why="one instruction fetches a row and one stores a group of them: no register waits for data",
)
class BulkRows:
    def prepare(self, table, index):
        row_bytes = 2 * table.shape[1]
        if row_bytes % 16 or row_bytes > 4 * GROUP_BYTES:
            raise SkipError(f"needs rows of a multiple of 16 bytes, up to {4 * GROUP_BYTES}; these have {row_bytes}")
        self.out, self.kernel = rows_like(table, index), device_code.kernel("bulk_rows")
        self.group = max(1, min(WARP, GROUP_BYTES // row_bytes))
        self.shared_bytes = STAGES * self.group * row_bytes
        at_once = grid_that_fills(self.kernel, WARP, self.shared_bytes)
        self.blocks = min(-(-index.shape[0] // self.group), at_once)

    def run(self, table, index):
        launch = {"grid": self.blocks, "block": WARP, "shared_bytes": self.shared_bytes}
        self.kernel(table, index, self.out, *self.out.shape, self.group, **launch)
        return self.out


@bench.baseline(device="cpu", requires="compiler", kind="reasonable", name="row_by_row")
class RowByRow(HostLoop):
    name = "row_by_row"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="prefetched",
    why="the indices say where the next rows lie: eight of them are on their way while one is copied",
)
class Prefetched(HostLoop):
    name = "prefetched"


@bench.yardstick(device=("cpu", "cuda"), name="index_select", why="torch.index_select, which an embedding calls")
class IndexSelect:
    def prepare(self, table, index):
        self.out = rows_like(table, index)

    def run(self, table, index):
        return torch.index_select(table, 0, index, out=self.out)
