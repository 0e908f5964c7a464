"""Work that is found at run time: a queue on the device finds it, and takes it at once.

Question    Which parts of a picture need work is known when their edges are computed. Who launches the work for them?
Numbers     The steps, at most 512, that 8192 x 8192 pixels stay in the Mandelbrot iteration. The set covers 24 % of the
            view, and its pixels take all 512: 124 of some 130 steps a pixel on average. The set has no holes, so a
            square whose edge is in the set needs no more work; others are split, down to a side of 32.
Prediction  Squares leave the pixels outside, 6 of the 130 steps, and the edges and last squares at the border of the
            set: 3 to 7x. A kernel for each depth waits for the slowest square of the one before; a queue does not.
Limits      A picture without a large part in the set: edges are then computed for nothing. A channel thinner than a
            pixel could lead into a square; this view has none. Kernels that launch kernels (dynamic parallelism) need
            the device runtime linked, which code that is compiled at run time does not have.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device", cache="warm")
cuda = bench.on("cuda")
device_code = cuda_source("dynamic_parallelism.cu")

THREADS, TOP, DEPTHS = 256, 512, 5
VIEW = (-2.0, -1.25, 2.5)  # left, top, width
ROWS = 256  # of the reference at a time


@bench.workload(smoke={"n": 97, "limit": 50}, cuda={"n": 8192, "limit": 512})
def inputs(n, device):
    left, top, width = VIEW
    return {"view": torch.tensor([left, top, width / n], device=device)}


@bench.reference(tolerance=exact)
def reference(view, n, limit):
    at = torch.arange(n, device=view.device).float() * view[2]
    return torch.cat([steps_of(view[0] + at, view[1] + rows, int(limit)) for rows in at.split(ROWS)])


def steps_of(columns, rows, limit):
    """The steps of the pixels at some columns and rows; each operation is rounded by itself."""
    re, im = torch.broadcast_tensors(columns[None, :], rows[:, None])
    x, y = torch.zeros_like(re), torch.zeros_like(re)
    near, count = torch.ones_like(re, dtype=torch.bool), torch.zeros_like(re, dtype=torch.int16)
    for _ in range(limit):
        xx, yy = x * x, y * y
        near &= xx + yy <= 4
        count += near
        y = x * y * 2 + im
        x = xx - yy + re
    return count


@bench.cost
def cost(n):
    return Cost(bytes_read=12, bytes_written=2 * n * n)


# One pixel; a square that is partly full; more than one first square; a limit at which the set's edge is coarse.
bench.awkward({"n": 1, "limit": 3}, {"n": 33, "limit": 1}, {"n": 513, "limit": 20}, {"n": 1031, "limit": 64})
cuda.reach(of="speedup", at_least=3, implementation="queue")


def picture(view, n):
    return torch.empty(n, n, dtype=torch.int16, device=view.device)


def two_ways(n):
    """Blocks of 32 columns and 8 rows."""
    return -(-n // 32), -(-n // (THREADS // 32))


cuda.baseline(launch(device_code, out=picture, grid=two_ways, block=THREADS)("flat"), kind="reasonable")


class Parts:
    """Lists of squares: the first holds all of the first depth."""

    lists = 1

    def prepare(self, view, n):
        self.out, self.across = picture(view, n), -(-n // TOP)
        first = self.across**2
        self.room = first * sum(4**depth for depth in range(DEPTHS))
        self.list = torch.zeros(self.lists, self.room, dtype=torch.int32, device=view.device)
        self.counts = torch.zeros(DEPTHS + 1, dtype=torch.int32, device=view.device)
        self.begin, self.begin_grid = device_code.kernel("first_parts"), -(-first // THREADS)

    def start(self):
        """Fill the first list; nothing is counted yet in the others."""
        self.list.zero_()
        self.counts.zero_()
        self.begin(self.list, self.counts, self.across, grid=self.begin_grid, block=THREADS)


@cuda.variant(
    adds="split squares",
    why="a square whose edge is in the set is filled, and others are split by a kernel for each depth",
    predict="3 to 7x: 130 steps a pixel against 6 outside, 2 of edges and some 11 of squares at the border",
)
class Levels(Parts):
    lists = DEPTHS + 1

    def prepare(self, view, n):
        super().prepare(view, n)
        self.level = device_code.kernel("level")
        self.grid = grid_that_fills(self.level, THREADS)

    def run(self, view, n, limit):
        self.start()
        for depth in range(DEPTHS):
            here, there = self.list[depth], self.list[depth + 1]
            counts = self.counts[depth : depth + 1], self.counts[depth + 1 :]
            given = (view, self.out, here, counts[0], there, counts[1], n, limit)
            self.level(*given, grid=self.grid, block=THREADS)
        return self.out


@cuda.variant(
    builds_on="levels",
    adds="queue on the device",
    why="blocks add squares to the list that they take squares from, and none waits for the end of a depth",
    predict="1 to 1.5x: four ends of kernels, each with the slowest square of its depth, in place of none",
)
class Queue(Parts):
    def prepare(self, view, n):
        super().prepare(view, n)
        self.queue = device_code.kernel("queue")
        self.grid = grid_that_fills(self.queue, THREADS)
        filled = self.across**2
        self.first = torch.tensor([0, filled, filled], dtype=torch.int32, device=view.device)

    def run(self, view, n, limit):
        self.start()
        self.counts[:3].copy_(self.first)
        self.queue(view, self.out, self.list, self.counts, self.room, n, limit, grid=self.grid, block=THREADS)
        return self.out
