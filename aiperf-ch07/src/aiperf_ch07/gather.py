"""Gather: fetch random rows at full width, several at a time.

Question    What keeps random reads from running at the rate of a copy, if each row is whole sectors?
Numbers     out[i] = table[index[i]], rows of 512 bytes (256 bfloat16), 2^20 of them from 2^22. No row is drawn twice:
            0.5 GiB read, as much written, 4 MiB of indices, so the floor is a copy of 0.5 GiB.
Prediction  A thread a row uses 16 bytes of each sector of 32 that it fetches: up to 2x by whole sectors. A warp then
            waits for its index and for its row in turn, with 512 bytes in flight; four rows make it 2 KiB.
Limits      Rows below 32 bytes: the sector is fetched, not the row. Repeated rows (`--size zipf`: row k of a hidden
            order in proportion to 1/k): each distinct row counts once, and hits in L2 are above the floor's rate.
            `bulk_rows` takes rows of a multiple of 16 bytes, up to 16 KiB.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, filling, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("gather.cu", instances=("in_order<uint4>", "in_order<unsigned short>"))
host_code = host_source("gather.c")

THREADS, WARP, ROWS = 256, 32, 4  # rows that a warp has in flight
STAGES, GROUP_BYTES = 4, 4096  # of `bulk_rows`: groups in flight in a block, bytes of a group of short rows


@bench.workload(
    smoke={"rows": 211, "table_rows": 1009, "width": 40, "skew": 0},
    cpu={"rows": 1 << 16, "table_rows": 1 << 17, "width": 256, "skew": 0},
    cuda={"rows": 1 << 20, "table_rows": 1 << 22, "width": 256, "skew": 0},
    zipf={"rows": 1 << 20, "table_rows": 1 << 22, "width": 256, "skew": 1},
)
def inputs(rows, table_rows, skew, device, generator):
    hidden_order = torch.randperm(table_rows, device=device, generator=generator)
    ranks = torch.arange(rows, device=device) % table_rows  # none is drawn twice while there are enough
    if skew:
        draws = torch.rand(rows, device=device, generator=generator, dtype=torch.float64)
        ranks = torch.searchsorted(popularity(table_rows, skew, device).cumsum(0), draws).clamp_(max=table_rows - 1)
    return {"index": hidden_order[ranks].to(torch.int32)}


@bench.static
def weights(table_rows, width, device, generator):
    return {"table": torch.randn(table_rows, width, device=device, generator=generator).to(torch.bfloat16)}


@bench.reference(tolerance=exact)
def reference(table, index):
    return table[index.long()]


@bench.cost
def cost(rows, table_rows, width, skew):
    # Each distinct row counts once: with skew as many as are expected.
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
# Whole sectors in both directions are a copy's traffic.
cuda.reach(of="SOL", at_least=0.92)
bench.sass("warp_per_row<uint4>", has=("LDG.128", "STG.128"))
bench.sass("four_rows<uint4>", has=("LDG.128", "STG.128"), loads_before_first_store=2 * ROWS)
bench.sass("in_order<uint4>", has=("LDG.128", "STG.128"), loads_before_first_store=3 * ROWS)
bench.sass("bulk_rows", has="UBLKCP", lacks=("LDG.128", "STG"), arch="sm_90")


def popularity(table_rows, skew, device):
    """The probability of each row to be drawn, the most popular first."""
    weights = torch.arange(1, table_rows + 1, device=device, dtype=torch.float64) ** -skew
    return weights / weights.sum()


def group_of(width):
    """The number of rows that one bulk copy stores. Raises `SkipError` for rows that no bulk copy takes."""
    row_bytes = 2 * width
    if row_bytes % 16 or row_bytes > 4 * GROUP_BYTES:
        raise SkipError(f"needs rows of a multiple of 16 bytes, up to {4 * GROUP_BYTES}; these have {row_bytes}")
    return max(1, min(WARP, GROUP_BYTES // row_bytes))


# The type of which rows consist, and how many a row has.
PIECES = {
    "piece": lambda width: "unsigned short" if width % 8 else "uint4",
    "pieces": lambda width: width if width % 8 else width // 8,
}
rows_like = ("table", ("rows", "width"))
fetch = launch(device_code, out=rows_like, make=PIECES, kernel="{name}<{piece}>", block=THREADS, grid=blocks(rows=8))
four_at_once = blocks(rows=4 * 8)
loops = loop(host_code, out=rows_like)

cuda.baseline(fetch("thread_per_row", grid=blocks(rows=THREADS)), kind="naive")
cuda.variant(
    fetch("warp_per_row"),
    adds="warp per row",
    why="the 32 lanes of a warp read 512 bytes in a row: whole sectors, each fetched once",
    predict="at least 2x: a thread of the baseline uses 16 bytes of each sector of 32 that it fetches",
)
cuda.variant(
    fetch("four_rows", grid=four_at_once),
    builds_on="warp_per_row",
    adds="rows in flight",
    why="a warp waits for its index, then for its row: four rows in flight share each wait",
)


@cuda.variant(
    builds_on="four_rows",
    adds="sorting",
    why="rows in the order of the table: equal and neighbouring ones meet in the cache",
    teaches="where no row is drawn twice, the order brings no hit, and the sort is added time",
)
class Sorted:
    def prepare(self, table, index, rows, width):
        self.out = table.new_empty(rows, width)
        piece, pieces = (make(width) for make in PIECES.values())
        self.kernel, self.sizes = device_code.kernel(f"in_order<{piece}>"), (rows, pieces)
        self.grid = four_at_once(rows=rows)

    def run(self, table, index):
        in_order, order = torch.sort(index)
        self.kernel(table, in_order, order, self.out, *self.sizes, grid=self.grid, block=THREADS)
        return self.out


cuda.variant(
    launch(
        device_code,
        out=rows_like,
        make={"group": group_of},
        grid=filling(at_most=lambda rows, group: -(-rows // group)),
        block=WARP,
        shared_bytes=lambda width, group: STAGES * group * 2 * width,
    )("bulk_rows"),
    requires="sm_90",
    builds_on="four_rows",
    adds="tma",
    why="a bulk copy fetches a row, and another stores a group of rows: no register waits for data",
    teaches="registers for four rows already keep the memory busy; a bulk copy brings no more bytes in flight",
)

cpu.baseline(loops("row_by_row"), kind="reasonable")
cpu.variant(
    loops("prefetched"),
    adds="software prefetch",
    why="the index tells which row is next, which the hardware cannot guess: eight rows are requested ahead",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.index_select, which an embedding calls")
class IndexSelect:
    def prepare(self, table, rows, width):
        self.out = table.new_empty(rows, width)

    def run(self, table, index):
        return torch.index_select(table, 0, index, out=self.out)
