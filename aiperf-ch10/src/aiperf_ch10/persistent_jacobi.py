"""An iteration whose state stays in registers: what is between two sweeps is not the grid, only the rims of its tiles.

Question    Each sweep of Jacobi's iteration needs the one before it. What does a sweep cost that writes the grid to L2
            and reads it again, and what does one whose points stay where they are?
Numbers     200 sweeps on 2048 x 2048 float32, zeros around: 16.8 MB, of 34 MB in the registers of 132 SMs. A sweep
            through L2 moves 34 MB, 6 us at 5.5 TB/s, and is a node of a graph, 1.1 us. In registers it is 4 operations
            and half a shuffle a point, 1,300 cycles or 0.7 us for 32,768 points an SM; tiles of 256 x 128 have rims of
            768 points, 0.8 MB for all. What an SM wrote, another reads some 0.7 us later.
Prediction  One launch alone gains nothing: a barrier takes as long as a node. Registers leave a sweep of 0.7 us and a
            barrier of 1.3 us or more, 2 to 4x. A neighbour's word that carries its sweep's number needs no barrier, but
            threads that ask for it until it is there.
Limits      The grid must fit: n = 2049 has 153 tiles for 132 SMs, and variants in registers are skipped. `--size small`
            has 8 tiles: both sweeps and nodes are then as short as latencies. A test of the residual in each sweep is
            a sum over the grid, and thus a barrier.
"""

from collections.abc import Callable

import torch
from attrs import evolve

from aiperf_ch10.cooperative import cooperative
from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="device", cache="warm")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("persistent_jacobi.cu")

THREADS, CHIP_THREADS = 256, 512
COLUMNS, ROWS, CHIP_ROWS = 128, 32, 256  # of tiles in memory, and of those that stay in registers
RIM = 2 * COLUMNS + 2 * CHIP_ROWS


@bench.workload(
    smoke={"n": 131, "sweeps": 5},
    cuda={"n": 2048, "sweeps": 200},
    small={"n": 512, "sweeps": 200},
)
def inputs(n, device, generator):
    return {"u": torch.randn(n, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(u, sweeps):
    u = torch.nn.functional.pad(u, (1, 1, 1, 1))
    for _ in range(sweeps):
        u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
    return u[1:-1, 1:-1].clone()


@bench.cost
def cost(n, sweeps):
    # Memory: read once and written once. Each sweep reads what other SMs wrote in the one before.
    return Cost(bytes_read=4 * n * n, bytes_written=4 * n * n, flops=4 * n * n * sweeps, serial_steps=sweeps - 1)


def cost_of_launches(n, sweeps):
    """A kernel a sweep, one after another."""
    return evolve(cost(n, sweeps), launches=sweeps)


# A point; no whole group of four; a tile, and one point more; several tiles with edges; one sweep, and odd numbers.
shapes = [(1, 1), (3, 2), (67, 7), (128, 4), (257, 3), (516, 6), (770, 5)]
bench.awkward(*({"n": n, "sweeps": sweeps} for n, sweeps in shapes))
# A node of 1.1 us and 6 us of L2, against 0.7 us of operations and 0.7 us until a neighbour's words are there; a fifth
# of that gain for what does not overlap.
cuda.reach(
    of="speedup",
    at_least=4.0,
    implementation="in_registers",
    cause="a sweep has a barrier of all blocks, which alone takes as long as a node of the graph",
    shown_by="variant:in_memory",
)
bench.sass("sweep", has=("LDG.128", "STG.128", "SHFL"))
bench.sass("in_registers", has=("LDS.128", "SHFL", "ATOMG", "MEMBAR"))
bench.sass("by_neighbours", has=("LDS.128", "SHFL", "LDG.64"), lacks=("ATOMG", "MEMBAR"))


def tiles(n, rows):
    return -(-n // rows) * -(-n // COLUMNS)


class Launches:
    """A launch a sweep."""

    def prepare(self, u, n, sweeps):
        self.out, spare = torch.empty_like(u), torch.empty_like(u)
        self.calls, source = Recording(), u
        for left in range(sweeps, 0, -1):
            target = self.out if left % 2 else spare
            kernel = device_code.kernel("sweep")
            self.calls.launch(kernel, target, source, n, grid=tiles(n, ROWS), block=THREADS)
            source = target

    def run(self):
        self.calls.play()
        return self.out


class OneLaunch:
    """All sweeps in a launch."""

    out: torch.Tensor
    launch: Callable[[], None]

    def run(self):
        self.launch()
        return self.out


cuda.baseline(graphed(Launches), name="graph", kind="reasonable", cost=cost_of_launches)


@cuda.variant(
    requires="sm_80",
    adds="grid barrier",
    why="one launch: blocks that stay wait for each other between sweeps; the points still go to L2 and back",
    predict="0.85 to 1.15x: a barrier is a fence, an atomic and a read, about as long as a node of a graph",
    teaches="a barrier of the grid takes as long as a node of a graph: blocks that stay gain by what they keep",
)
class InMemory(OneLaunch):
    def prepare(self, u, n, sweeps):
        kernel, spare = device_code.kernel("in_memory"), torch.empty_like(u)
        self.out = torch.empty_like(u)
        arrived = torch.zeros(1, dtype=torch.int64, device=u.device)
        blocks = min(tiles(n, ROWS), grid_that_fills(kernel, THREADS))
        self.launch = cooperative(kernel, (self.out, u, spare, arrived, n, sweeps), blocks, THREADS)


@cuda.variant(
    requires="sm_80",
    builds_on="in_memory",
    adds="state in registers",
    why="a thread keeps its 64 points: between sweeps it exchanges rows by shared memory, and rims of tiles by L2",
    predict="2.0 to 4.5x: 0.7 us of operations and a barrier of 1.3 us, in place of 34 MB of L2 and that barrier",
)
class InRegisters(OneLaunch):
    def prepare(self, u, n, sweeps):
        self.out, blocks = torch.empty_like(u), tiles(n, CHIP_ROWS)
        arrived, rims = torch.zeros(1, dtype=torch.int64, device=u.device), u.new_empty(2, blocks, RIM)
        given = (self.out, u, rims, arrived, n, sweeps)
        self.launch = cooperative(device_code.kernel("in_registers"), given, blocks, CHIP_THREADS)


@cuda.variant(
    requires="sm_80",
    builds_on="in_registers",
    adds="words with their number",
    why="a word of a rim is 8 bytes, a value and its sweep: a read that finds it waits for no other block",
    predict="0.5 to 1.9x: a store and the read that finds it, in place of a fence, an atomic and two reads behind it",
    teaches="threads of all rims ask again and again for their words: one thread of a block that asks costs less",
)
class ByNeighbours(OneLaunch):
    def prepare(self, u, n, sweeps):
        self.out, blocks = torch.empty_like(u), tiles(n, CHIP_ROWS)
        self.words = torch.zeros(2, blocks, RIM, dtype=torch.int64, device=u.device)
        given = (self.out, u, self.words, n, sweeps)
        self.launch = cooperative(device_code.kernel("by_neighbours"), given, blocks, CHIP_THREADS)

    def run(self):
        self.words.zero_()
        return super().run()
