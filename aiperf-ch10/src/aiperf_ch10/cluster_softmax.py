"""Clusters: a row too long for one multiprocessor lies in the shared memory of several.

Question    What does a softmax of rows of 512 KiB gain when several SMs keep a row, and how many should they be?
Numbers     1056 rows of 262144 bfloat16: one read and one write are 1.1 GB. Slices of 128, 64 or 32 KiB: one, three or
            four blocks on an SM, since 512 threads take a quarter of its threads.
Prediction  Two kernels read twice: 3 units for 2, so 1.5x at most. A block loads, then computes, then stores. Alone on
            an SM it leaves the memory idle while it computes; three overlap. Four blocks of 32 KiB have 128 KiB under
            way, three of 64 KiB 192: clusters of 16 lose.
Limits      Rows that one block can keep need no cluster. A cluster lies in one GPC of 16 or 18 SMs, where places for a
            part of a cluster stay empty. Rows are multiples of eight elements; slices of more than 224 KiB do not fit.
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
# Two of two units of traffic, less the start and the end of each block.
cuda.reach(of="BW", at_least=0.88)
# Clusters of 16: a GPC of 16 or 18 SMs has room for three, and seven GPCs for 336 of 396 blocks.
cuda.reach(of="BW", at_least=0.80, size="long")
cuda.reach(of="speedup", at_least=1.35)
bench.sass("in_cluster", has=("LDGSTS.128", "MUFU.EX2", "STG.128"), arch="sm_90")


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


softmax = launch(device_code, out="x", block=THREADS, grid=1, make={"checked": checked})


def in_cluster(blocks):
    """The implementation with a cluster of `blocks` blocks for each row."""
    return softmax(
        f"cluster_{blocks}",
        kernel="in_cluster",
        grid=lambda rows: (blocks, rows),
        cluster=blocks,
        shared_bytes=lambda columns: slice_bytes(columns, blocks),
    )


cuda.variant(
    in_cluster(4),
    adds="clusters",
    why="four multiprocessors keep a row in their shared memory and exchange four maxima and sums: it is read once",
    predict="at most 1.5x: two units of traffic, not three",
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
    why="slices of a quarter, and four blocks beside each other; clusters of 16 are not portable",
    teaches="threads, not shared memory, are the limit: four slices of 32 KiB are fewer bytes under way than "
    "three of 64, and a GPC has no place for half a cluster. 16 pay where a slice of eight is alone: --size long",
)


@cuda.yardstick(why="torch.softmax over the last dimension")
class Softmax:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        return torch.softmax(x, 1, out=self.out)
