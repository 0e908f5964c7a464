"""Reduction in one launch: the block that ends last adds up what the others left.

Question    What does a second launch cost a sum, and what replaces it?
Numbers     The sums of 16 rows of 2^16 float32, each by 16 blocks: 4 MB, 0.9 us at the rate of a read. A kernel that
            follows another in a stream starts about a microsecond after it. `--size large` has rows of 2^24: 1.07 GB,
            0.24 ms.
Prediction  One launch instead of two saves a start of a kernel of three to four such times: 1.1 to 1.5x. At `--size
            large` it is 1 us of 240. `atomic` needs a zeroed result, which is a launch again. A wait of all blocks for
            all costs trips to L2.
Limits      The order of additions of `atomic` differs from run to run, and so do the last bits. The blocks of
            `grid_barrier` must fit on the chip at once, and would wait forever beside a kernel that never ends. On a
            CPU none gains: cores that read memory are the bound.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cpu": "reads from memory are the bound; the sums of the parts are one float for 64 KiB"},
)
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("single_pass_reduction.cu"), host_source("single_pass_reduction.c")

THREADS, RESIDENT, CLUSTER = 256, 4, 8
# Floats that a block has under way at once, and floats of a part on the CPU.
BLOCK, PART = 16 * THREADS, 16384


@bench.workload(
    smoke={"rows": 16, "columns": 4099},
    cpu={"rows": 16, "columns": 1 << 20},
    cuda={"rows": 16, "columns": 1 << 16},
    large={"rows": 16, "columns": 1 << 24},
)
def inputs(rows, columns, device, generator):
    return {"a": torch.rand(rows, columns, device=device, generator=generator).mul_(2).sub_(1)}


@bench.reference(tolerance=fp32_reduction)
def reference(a):
    return a.sum(1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=rows * (columns - 1))


shapes = [(1, 1), (16, 3), (3, 4), (16, 1023), (5, 16384), (7, 32771), (700, 5000), (3, 1000003)]
bench.awkward(*({"rows": rows, "columns": columns} for rows, columns in shapes))
cuda.reach(of="LAT", at_most=1.5)
# 1.07 GB, less the first loads and the last sums of a launch: 5 us of 240.
cuda.reach(of="RBW", at_least=0.93, size="large")
for kernel in ("leave_partials", "atomic", "last_block", "grid_barrier"):
    bench.sass(kernel, has="LDG.128")


def sums(a):
    """Memory for the sums."""
    return a.new_empty(a.shape[0])


def at_once(kernel):
    """The number of blocks of a kernel that the chip holds."""
    return grid_that_fills(device_code.kernel(kernel), THREADS, per_multiprocessor=RESIDENT)


def blocks_a_row(rows, columns):
    """As many as the chip holds at once, or fewer, so that each has something to do."""
    return max(1, min(-(-columns // BLOCK), at_once("leave_partials") // rows))


def blocks_that_meet(rows, columns):
    """The same for the grid barrier, whose blocks must all be there."""
    if rows > at_once("grid_barrier"):
        raise SkipError(f"needs at most {at_once('grid_barrier')} rows, so that all blocks are on the chip at once")
    return min(-(-columns // BLOCK), at_once("grid_barrier") // rows)


def blocks_in_clusters(rows, columns):
    """The same in whole clusters."""
    return max(1, min(-(-columns // (CLUSTER * BLOCK)), at_once("cluster") // (CLUSTER * rows))) * CLUSTER


def zeros(a, count, dtype):
    """Counters, which every launch leaves as the next one needs them."""
    return torch.zeros(count, dtype=dtype, device=a.device)


one_launch = launch(
    device_code,
    out=sums,
    grid=lambda count, rows: (count, rows),
    block=THREADS,
    make={
        "count": blocks_a_row,
        "partials": lambda a, rows, count: a.new_empty(rows * count),
        "counters": lambda a, rows: zeros(a, rows, torch.int32),
    },
)
loops = loop(
    host_code,
    out=sums,
    make={
        "parts": lambda columns: -(-columns // PART),
        "partials": lambda a, rows, parts: a.new_empty(rows * parts),
        "counters": lambda a, rows: zeros(a, rows, torch.int32),
    },
)


@cuda.baseline(kind="reasonable")
class TwoKernels:
    def prepare(self, a, rows, columns):
        self.out, self.count = sums(a), blocks_a_row(rows, columns)
        self.partials = a.new_empty(rows * self.count)
        self.leave, self.add = device_code.kernel("leave_partials"), device_code.kernel("sum_partials")

    def run(self, a, rows, columns):
        self.leave(a, self.partials, columns, grid=(self.count, rows), block=THREADS)
        self.add(self.partials, self.out, self.count, grid=rows, block=THREADS)
        return self.out


cuda.variant(
    one_launch("atomic", zero=("out",)),
    adds="atomics",
    why="blocks add their sums to the result as they end: no second pass, but a kernel before that zeroes the result",
    teaches="a kernel that zeroes the result costs what the second kernel did: an atomic alone saves no launch",
)
cuda.variant(
    one_launch("last_block"),
    adds="last block",
    why="the block that ends last knows it from a counter, and does what the second kernel did: one launch is all",
    predict="1.05 to 1.5x: one start of a kernel less, of about a microsecond",
)
cuda.variant(
    one_launch("grid_barrier", make={"count": blocks_that_meet, "arrivals": lambda a: zeros(a, 1, torch.int64)}),
    adds="grid barrier",
    why="all blocks are on the chip at once and wait for each other: one launch, but a wait that few blocks need",
    teaches="a barrier asks for more than a reduction needs: only the last block has to know that it is the last",
)
cuda.variant(
    one_launch("cluster", make={"count": blocks_in_clusters}, cluster=CLUSTER),
    requires="sm_90",
    builds_on="last_block",
    adds="clusters",
    why="eight blocks meet in distributed shared memory: an eighth of the atomics, and of the sums that are read again",
    teaches="sixteen counts and sums a row were cheap: the cluster's two barriers take longer than they save",
)

cpu.baseline(loops("two_passes"), kind="reasonable")
cpu.variant(loops("atomic"), adds="atomics", why="cores add to the result as they go: no second loop over the parts")
cpu.variant(
    loops("last_part"), adds="last part", why="the core that ends a row adds up its parts: nobody waits for the others"
)


@bench.yardstick(device=("cpu", "cuda"), name="sum", why="torch.sum over the last dimension")
class Sum:
    def prepare(self, a):
        self.out = sums(a)

    def run(self, a):
        return torch.sum(a, 1, out=self.out)
