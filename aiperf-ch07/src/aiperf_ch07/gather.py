"""Gather: random rows at full width.

Workload   out[i] = table[index[i]]: rows of 256 bfloat16 from a table of 2^22. With `skew` 0 every row of the table is
           equally likely, and none is drawn twice while there are enough; else row number k of a hidden order is drawn
           in proportion to k^-skew (Zipf), as words of a language are.
Baseline   cuda: a thread a row, so that the lanes of a warp are in 32 rows at once.  cpu: one row after the other.
Variants   cuda: `warp_per_row`: 32 lanes take the 32 pieces of a row.  `four_rows`: four rows a warp in flight.
           `sorted`: the same in the order of the table, the sort included.  `bulk_rows`: the copy engine fetches rows.
           cpu: `prefetched`: rows are prefetched eight rows ahead.
Breaks     Rows shorter than a line: then the sector, not the row, is what is fetched, and no order of lanes helps. A
           skewed draw (`--size zipf`) finds its hot rows in the cache. Its cost counts each row that is drawn once, so
           that a rate above that of memory is not invented by counting a row twice; what remains above are hits in L2.
           `sorted` loses where no row is drawn twice: there is nothing to find in a cache, and the sort takes time.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("gather.cu"), host_source("gather.c")

THREADS, WARP = 256, 32
# Of the copy engine's kernel: groups in flight in a block, bytes of a group (if rows are no longer).
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


bench.awkward(
    {"rows": 1, "table_rows": 1, "width": 8},
    {"table_rows": 101, "rows": 1009, "width": 256},
    {"table_rows": 5003, "rows": 67, "width": 37},
    {"table_rows": 5003, "rows": 4099, "width": 264, "skew": 1},
    {"table_rows": 257, "rows": 131, "width": 4096, "skew": 0.5},
)
bench.accept("cost.bytes_read", because="only rows that are drawn are read")
cuda.reach(of="SOL", at_least=0.85)


def popularity(table_rows, skew, device):
    """The probability of each row to be drawn, the most popular first."""
    weights = torch.arange(1, table_rows + 1, device=device, dtype=torch.float64) ** -skew
    return weights / weights.sum()


def rows_like(table, index):
    """Memory for the rows that are gathered."""
    return torch.empty(index.shape[0], table.shape[1], dtype=table.dtype, device=table.device)


def group_of(width):
    """Rows that the copy engine stores together. Raises `SkipError` for rows that it cannot fetch."""
    row_bytes = 2 * width
    if row_bytes % 16 or row_bytes > 4 * GROUP_BYTES:
        raise SkipError(f"needs rows of a multiple of 16 bytes, up to {4 * GROUP_BYTES}; these have {row_bytes}")
    return max(1, min(WARP, GROUP_BYTES // row_bytes))


def stages_bytes(width, group):
    """Shared memory of a block for its groups in flight."""
    return STAGES * group * 2 * width


def filling(rows, width, group):
    """Blocks of `bulk_rows`, of one warp each, that fill the chip, if there is a group for each."""
    at_once = grid_that_fills(device_code.kernel("bulk_rows"), WARP, stages_bytes(width, group))
    return min(-(-rows // group), at_once)


fetch = launch(device_code, out=rows_like, grid=blocks(rows=THREADS // WARP), block=THREADS)
fetch_four = blocks(rows=4 * THREADS // WARP)
loops = loop(host_code, out=rows_like)

cuda.baseline(fetch("thread_per_row", grid=blocks(rows=THREADS)), kind="naive")
cuda.variant(
    fetch("warp_per_row"),
    adds="warp per row",
    why="the 32 lanes of a warp read 512 bytes in a row: whole sectors, each fetched once",
)
cuda.variant(
    fetch("four_rows", grid=fetch_four),
    builds_on="warp_per_row",
    adds="rows in flight",
    why="a row waits for its index, and the warp for both: four of them in flight share that wait",
)


@cuda.variant(
    builds_on="four_rows",
    adds="sorting",
    why="rows in the order of the table: equal and neighbouring ones meet in the cache, if there are any (`zipf`)",
)
class Sorted:
    def prepare(self, table, index, rows):
        self.out, self.kernel = rows_like(table, index), device_code.kernel("in_order")
        self.grid = fetch_four(rows=rows)

    def run(self, table, index):
        in_order, order = torch.sort(index)
        self.kernel(table, in_order, order, self.out, *self.out.shape, grid=self.grid, block=THREADS)
        return self.out


cuda.variant(
    fetch(
        "bulk_rows",
        make={"group": group_of},
        grid=filling,
        block=WARP,
        shared_bytes=stages_bytes,
    ),
    requires="sm_90",
    adds="copy engine",
    why="one instruction fetches a row and one stores a group of them: no register waits for data",
)

cpu.baseline(loops("row_by_row"), kind="reasonable")
cpu.variant(
    loops("prefetched"),
    adds="software prefetch",
    why="the indices tell where the next rows are, which the hardware cannot guess: eight are on their way meanwhile",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.index_select, which an embedding calls")
class IndexSelect:
    def prepare(self, table, index):
        self.out = rows_like(table, index)

    def run(self, table, index):
        return torch.index_select(table, 0, index, out=self.out)
