"""Reduction: shuffles instead of barriers.

Workload   The sum of each row: 2^17 rows of 2048 float32, or with `--size long` 16 rows of 2^24. Elements are drawn
           evenly between -1 and 1, so that most of a sum cancels.
Baseline   cuda: a block a row; its 256 sums meet in a tree in shared memory, with a barrier at each of eight levels.
           cpu: one sum a row, in which every addition waits for the one before.
Variants   cuda: `shuffle`: lanes read each other's registers; one barrier is left.  `shuffle_wide`: 16-byte loads.
           `warp_per_row`: no barrier at all.  `fixed_point`: redux.sync adds integers over a warp in one instruction.
           cpu: `many_chains`: 128 sums in eight registers.
Breaks     Long rows: what is read dwarfs how the last 256 numbers meet. `fixed_point` needs to know the range of the
           elements; it rounds to some 2^-30 of the largest sum that a warp could have.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("warp_reduce.cu")
host_code = host_source("warp_reduce.c")

THREADS, WARP = 256, 32
# The parts of long rows, so that few rows fill the chip too: multiples of 4 elements, to stay aligned.
BLOCK_PART, WARP_PART = 1 << 14, 1 << 12


@bench.workload(
    smoke={"rows": 37, "columns": 1021},
    cpu={"rows": 1 << 14, "columns": 2048},
    cuda={"rows": 1 << 17, "columns": 2048},
    long={"rows": 16, "columns": 1 << 24},
)
def inputs(rows, columns, device, generator):
    return {"a": 2 * torch.rand(rows, columns, device=device, generator=generator) - 1}


@bench.reference(tolerance=fp32_reduction)
def reference(a):
    return a.sum(1)


@bench.cost
def cost(rows, columns):
    return Cost(bytes_read=4 * rows * columns, bytes_written=4 * rows, flops=rows * (columns - 1))


bench.reach(of="RBW", at_least=0.93)


class BlockSums:
    """Launches a kernel with a block for each part of a row, and again for the sums of the parts."""

    name = ""

    def prepare(self, a):
        rows, columns = a.shape
        self.kernel, self.out = device_code.kernel(self.name), a.new_empty(rows)
        self.parts = -(-columns // BLOCK_PART)
        self.sums = a.new_empty(rows, self.parts) if self.parts > 1 else self.out

    def run(self, a):
        rows, columns = a.shape
        self.kernel(a, self.sums, columns, BLOCK_PART, grid=(rows, self.parts), block=THREADS)
        if self.parts > 1:
            self.kernel(self.sums, self.out, self.parts, self.parts, grid=rows, block=THREADS)
        return self.out


class WarpSums:
    """Launches a kernel with a warp for each part of a row, and one with a block a row that adds the parts."""

    name = ""

    def prepare(self, a):
        rows, columns = a.shape
        self.kernel, self.out = device_code.kernel(self.name), a.new_empty(rows)
        self.parts = -(-columns // WARP_PART)
        self.sums = a.new_empty(rows, self.parts) if self.parts > 1 else self.out
        self.meet = device_code.kernel("shuffle_wide")
        self.more: tuple[float, ...] = ()

    def run(self, a):
        rows, columns = a.shape
        blocks = -(-rows * self.parts * WARP // THREADS)
        self.kernel(a, self.sums, columns, WARP_PART, rows, *self.more, grid=blocks, block=THREADS)
        if self.parts > 1:
            self.meet(self.sums, self.out, self.parts, self.parts, grid=rows, block=THREADS)
        return self.out


class HostLoop:
    """Calls a loop in C, which cuts rows into parts where there are fewer rows than cores have use for."""

    name = ""

    def prepare(self, a):
        self.loop = host_code.function(self.name)
        self.parts = max(1, -(-64 // a.shape[0]))
        self.sums = a.new_empty(a.shape[0], self.parts)

    def run(self, a):
        self.loop(a, self.sums, *a.shape, self.parts)
        return self.sums.sum(1) if self.parts > 1 else self.sums[:, 0]


@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="tree")
class Tree(BlockSums):
    name = "tree"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="shuffle",
    why="lanes add up each other's registers: five steps without memory, and one barrier a row, not eight",
)
class Shuffle(BlockSums):
    name = "shuffle"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="shuffle_wide",
    builds_on="shuffle",
    why="16 bytes a load: a quarter of the loads for the same bytes in flight",
)
class ShuffleWide(BlockSums):
    name = "shuffle_wide"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="warp_per_row",
    builds_on="shuffle_wide",
    why="a warp that has a row to itself never meets the others: no barrier, and no shared memory",
)
class WarpPerRow(WarpSums):
    name = "warp_per_row"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="fixed_point",
    builds_on="warp_per_row",
    why="redux.sync adds an integer over 32 lanes in one instruction, where shuffles take five steps",
)
class FixedPoint(WarpSums):
    name = "fixed_point"

    def prepare(self, a):
        super().prepare(a)
        # A lane adds up so many elements of magnitude 1 at most; 32 lanes together stay below 2^30.
        in_a_lane = -(-min(WARP_PART, a.shape[1]) // WARP) + 4
        self.more = (float(1 << 30) / (WARP * in_a_lane),)


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="one_chain")
class OneChain(HostLoop):
    name = "one_chain"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="many_chains",
    why="128 sums in eight registers: sixteen additions an instruction, of which none waits for another",
)
class ManyChains(HostLoop):
    name = "many_chains"


@bench.yardstick(device=("cpu", "cuda"), name="sum", why="torch.sum over the last dimension")
class Sum:
    def prepare(self, a):
        self.out = a.new_empty(a.shape[0])

    def run(self, a):
        return torch.sum(a, 1, out=self.out)
