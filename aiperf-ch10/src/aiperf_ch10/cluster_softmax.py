"""Clusters: a row too long for one multiprocessor lies in the shared memory of several.

Workload   The softmax of 1056 rows of 262144 bfloat16, half a MiB each; with `--size long` 528 rows of 524288.
Baseline   Two kernels: 16 blocks a row leave the maxima and sums of their slices in memory, and a second kernel reads
           the rows again. The rows that are read meanwhile are more than L2 holds.
Variants   `cluster_4`, `cluster_8`, `cluster_16`: the blocks of a row are a cluster of that many. Each keeps its slice
           in shared memory and writes its maximum and sum to the others', so that a row is read once. With more blocks
           a slice is smaller, and several fit on a multiprocessor: one reads while another writes. 16 blocks are more
           than every GPU with clusters promises.
Breaks     Rows that one block can keep: they need no cluster. A sum or a maximum alone needs no second look at the row,
           and no shared memory either. Rows are multiples of eight elements; slices of more than 224 KiB do not fit.
"""

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires="sm_90")
device_code = cuda_source("cluster_softmax.cu")

THREADS, SPLIT = 512, 16
# Of a block's dynamic shared memory on sm_90, beside what the kernel itself declares.
MOST_BYTES = 224 * 1024


@bench.workload(
    smoke={"rows": 5, "columns": 4104},
    cuda={"rows": 1056, "columns": 262144},
    long={"rows": 528, "columns": 524288},
)
def inputs(rows, columns, device, generator):
    return {"x": (4 * torch.randn(rows, columns, device=device, generator=generator)).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x):
    return torch.softmax(x, 1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=2 * rows * columns, bytes_written=2 * rows * columns)


# One piece of eight, of which most blocks have none; slices that are no multiple of the threads.
shapes = [(1, 8), (3, 136), (7, 65544), (2, 262152)]
bench.awkward(*({"rows": rows, "columns": columns} for rows, columns in shapes))
for size in ("cuda", "long"):
    cuda.reach(of="BW", at_least=0.88, size=size)
cuda.reach(of="speedup", at_least=1.35)


def checked(rows, columns):
    """Refuse what the kernels do not take."""
    if columns % 8 or rows > 65535:
        raise SkipError(f"takes at most 65535 rows of a multiple of eight elements; these are {rows} of {columns}")


def slice_bytes(columns, blocks):
    """The shared memory for a slice."""
    size = 16 * -(-columns // 8 // blocks)
    if size > MOST_BYTES:
        raise SkipError(f"a slice of {size} bytes does not fit into a multiprocessor's shared memory ({MOST_BYTES})")
    return size


@cuda.baseline(kind="reasonable")
class TwoKernels:
    def prepare(self, x, rows, columns):
        checked(rows, columns)
        self.out, self.parts = torch.empty_like(x), torch.empty(rows, SPLIT, 2, device=x.device)
        self.leave, self.read = device_code.kernel("leave_parts"), device_code.kernel("read_again")
        self.shape: dict[str, Any] = {"grid": (SPLIT, rows), "block": THREADS}

    def run(self, x, columns):
        self.leave(x, self.parts, columns, **self.shape)
        self.read(x, self.parts, self.out, columns, **self.shape)
        return self.out


softmax = launch(device_code, kernel="in_cluster", out="x", block=THREADS, grid=1, make={"checked": checked})


def in_cluster(blocks):
    """The implementation with a cluster of `blocks` blocks for each row."""
    return softmax(
        f"cluster_{blocks}",
        grid=lambda rows: (blocks, rows),
        cluster=blocks,
        shared_bytes=lambda columns: slice_bytes(columns, blocks),
    )


cuda.variant(
    in_cluster(4),
    adds="clusters",
    why="four multiprocessors keep a row in their shared memory and exchange four maxima and sums: it is read once",
)
cuda.variant(
    in_cluster(8),
    builds_on="cluster_4",
    adds="eight blocks",
    why="slices of half the size: several blocks fit on a multiprocessor, of which one reads while another writes",
)
cuda.variant(
    in_cluster(16),
    builds_on="cluster_8",
    adds="sixteen blocks",
    why="slices of a quarter, and more blocks beside each other; clusters of 16 are not portable",
)


@cuda.yardstick(why="torch.softmax over the last dimension")
class Softmax:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.softmax(x, 1, out=self.out)
