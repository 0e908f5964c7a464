"""Load imbalance: equal shares of all nonzeros, whatever rows they are in.

Question    Rows of a sparse matrix differ in length by a factor of thousands. Which thread takes which nonzeros?
Numbers     y = A x, A of 2^20 rows in CSR, float32; the part u of the rows has at most 8 / (1 - u) nonzeros, and no row
            more than 65,536: half of the rows have 16 at most, and half of 83 million nonzeros are in rows above 1000.
            A nonzero is 8 bytes: 0.68 GB, 0.16 ms at 4.3 TB/s. Columns come in runs of eight, whose values of x are a
            sector of L2.
Prediction  A row takes a round of waits for every 4 nonzeros of a lane, 0.4 to 1.2 us for columns and x. A thread for
            each row: 16,384 rounds of the longest, 6 to 20 ms. A warp: 512 rounds, 0.5 to 1 ms, and half of its lanes
            are idle in half of the rows. A block for the longest: 64 rounds, beside all others. Equal shares have no
            longest: the time of the bytes, a search for each share and 4 MB of zeros.
Limits      Rows of one length (`--size even`): any mapping that fills the lanes is as good. Columns at random places
            take a sector for 4 bytes of x, 32 bytes a nonzero from L2, and that is the bound then. Bins sort the rows
            before the call, which pays if the matrix stays. Sums have another order.
"""

from functools import cache

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code = cuda_source("load_imbalance.cu")
host_code = host_source("load_imbalance.c", options=("-ffp-contract=fast",))

THREADS, ITEMS, GROUP = 256, 11, 8
WARPS, TILE = THREADS // 32, THREADS * ITEMS
MEDIUM, LONG = 32, 1024  # rows above it take a warp, a block
RUN = 8  # neighbouring columns
SHUFFLED = 1  # the seed of the order of rows


sums_in_turn = Tolerance(5e-5, reason="a thread adds up to 65,536 products one after another in float32")


@bench.workload(
    smoke={"rows": 1009, "shortest": 4, "longest": 3000},
    cpu={"rows": 1 << 13, "shortest": 8, "longest": 1 << 16},
    cuda={"rows": 1 << 20, "shortest": 8, "longest": 1 << 16},
    even={"rows": 1 << 20, "shortest": 80, "longest": 80},
)
def inputs(rows, shortest, longest, device, generator):
    count = nonzeros_of(rows, shortest, longest)
    if rows + count >= 1 << 31:
        raise BenchmarkError(f"indices have 32 bits, so that rows and nonzeros are below 2^31; got {rows} and {count}")
    return {
        "values": torch.randn(count, device=device, generator=generator),
        "x": torch.randn(rows, device=device, generator=generator),
    }


@bench.static
def structure(rows, shortest, longest, device, generator):
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(SHUFFLED))
    ends = lengths(rows, shortest, longest)[order].cumsum(0)
    count = int(ends[-1])
    runs = torch.randint(-(-rows // RUN), (count // RUN + 1,), device=device, generator=generator, dtype=torch.int32)
    columns = RUN * runs[:, None] + torch.arange(RUN, device=device, dtype=torch.int32)
    return {
        "row_starts": torch.cat((ends.new_zeros(1), ends)).to(device, torch.int32),
        "columns": columns.view(-1)[:count] % rows,
    }


def lengths(rows, shortest, longest):
    """The lengths of all rows, sorted: the same for every draw."""
    return (shortest * rows / (rows - 0.5 - torch.arange(rows, dtype=torch.float64))).long().clamp(max=longest)


@cache
def nonzeros_of(rows, shortest, longest):
    return int(lengths(rows, shortest, longest).sum())


@bench.reference(tolerance=sums_in_turn)
def reference(values, x, row_starts, columns):
    products = values * x.index_select(0, columns)
    return torch.cat((x.new_zeros(1), products.cumsum(0)))[row_starts.long()].diff()


@bench.cost
def cost(rows, shortest, longest):
    count = nonzeros_of(rows, shortest, longest)
    return Cost(bytes_read=8 * count + 4 * (rows + 1) + 4 * rows, bytes_written=4 * rows, flops=2 * count)


# A row; rows that are empty, many of them; a long row alone; one that fills tiles to the end; rows of all bins.
bench.awkward(
    {"rows": 1, "shortest": 1, "longest": 1},
    {"rows": 5003, "shortest": 0.6, "longest": 40},
    {"rows": 1, "shortest": 20_011, "longest": 20_011},
    {"rows": 3, "shortest": 4 * TILE - 1, "longest": 4 * TILE - 1},
    {"rows": 2049, "shortest": 9, "longest": 9},
    {"rows": 301, "shortest": 20, "longest": 9001},
)
# The bytes at 0.9 of the rate, and 12 us of the search, zeros and first tiles beside 160.
cuda.reach(of="BW", at_least=0.80, implementation="merge_path")
cuda.reach(of="time:csr", at_most=1.0, implementation="merge_path")
bench.sass("merge_path", has=("LDG.32", "SHFL.UP", "BAR"), lacks=("LDL", "STL"))


def product(x):
    """Memory for the product."""
    return torch.empty_like(x)


def bins(row_starts):
    """The long rows, the medium and the short ones, each in the order of memory."""
    length = row_starts.diff()
    is_long, is_short = length > LONG, length <= MEDIUM
    return [rows.nonzero().view(-1).to(torch.int32) for rows in (is_long, ~is_long & ~is_short, is_short)]


by_rows = launch(device_code, out=product, grid=blocks(rows=THREADS), block=THREADS)
loops = loop(host_code, out=product)

cuda.baseline(by_rows("thread_per_row"), kind="naive")
cuda.variant(
    by_rows("warp_per_row", grid=blocks(rows=WARPS)),
    adds="warp a row",
    why="32 lanes share a row: the longest takes a 32nd of the rounds, and lanes read neighbours",
    predict="6 to 40x: 512 rounds of waits for the longest row in place of 16,384",
)


@cuda.variant(
    builds_on="warp_per_row",
    adds="row bins",
    why="a block for each long row, before all others, and eight lanes for a short one: no lane waits for the longest",
    predict="2 to 6x: 64 rounds of the longest row hide behind 0.16 ms of bytes",
)
class RowBins:
    def prepare(self, row_starts, x, rows):
        self.bins, self.out = bins(row_starts), product(x)
        self.order, self.kernel = torch.cat(self.bins), device_code.kernel("row_bins")
        self.longs, self.mediums, shorts = map(len, self.bins)
        self.grid = self.longs + -(-self.mediums // WARPS) + -(-shorts * GROUP // THREADS)

    def run(self, row_starts, columns, values, x, rows):
        matrix, order = (row_starts, columns, values, x), (self.order, self.out, rows, self.longs, self.mediums)
        self.kernel(*matrix, *order, grid=self.grid, block=THREADS)
        return self.out


@cuda.variant(
    adds="merge path",
    why="rows and nonzeros are one list, of which each thread has eleven items: no thread has more, whatever the rows",
    predict="at least 20x: 0.16 ms of bytes and a search in place of the longest row's 6 to 20 ms",
)
class MergePath:
    def prepare(self, row_starts, columns, x, rows):
        self.out, self.count = product(x), len(columns)
        self.tiles = -(-(rows + self.count) // TILE)
        self.firsts = row_starts.new_empty(self.tiles + 1)
        self.search, self.kernel = device_code.kernel("first_rows"), device_code.kernel("merge_path")

    def run(self, row_starts, columns, values, x, rows):
        grid = -(-max(rows, self.tiles + 1) // THREADS)
        self.search(row_starts, self.firsts, self.out, rows, self.count, self.tiles, grid=grid, block=THREADS)
        matrix, rest = (row_starts, columns, values, x), (self.firsts, self.out, rows, self.count)
        self.kernel(*matrix, *rest, grid=self.tiles, block=THREADS)
        return self.out


cpu.baseline(loops("rows_each"), kind="naive")
cpu.variant(
    loops("merge_path"),
    adds="merge path",
    why="each processor has an equal share of rows and nonzeros, also if that is a part of a row",
    predict="1 to 1.2x: 329,000 items of each of two processors, where one half of the rows has 363,000 nonzeros",
)
cpu.variant(
    loops("simd", kernel="merge_path_simd"),
    builds_on="merge_path",
    adds="simd",
    why="eight sums of a row, which do not wait for each other; short rows fill few of them",
)


@bench.yardstick(device=("cpu", "cuda"), name="csr", why="torch.mv of a CSR tensor, which is cuSPARSE or MKL")
class Csr:
    def run(self, row_starts, columns, values, x, rows):
        return torch.mv(torch.sparse_csr_tensor(row_starts, columns, values, (rows, rows)), x)
