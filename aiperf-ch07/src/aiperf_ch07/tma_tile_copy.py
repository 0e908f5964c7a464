"""Tile copies: let the copy engine do the addressing.

Workload   Tiles of 128 x 64 float32 out of a 32768 x 8192 matrix, each to 32 KiB in a row, as a product by tiles wants
           its operands. The matrix has a pitch: its rows are at least one element longer than what is used of them, and
           start at multiples of 16 bytes. Tiles at the edges are filled up with zeros.
Baseline   256 threads a tile: 16-byte loads, shared memory, 16-byte stores.
Variants   `cp_async`: the loads go to shared memory past the registers.  `tensor_copy`: one lane asks the copy engine
           (TMA) for the tile and sends it off.  `tensor_ring`: three tiles a block in a grid that fills the chip.
Breaks     Bandwidth is the bound of all four, so that time tells little: what the copy engine saves is instructions,
           and they are worth something to a kernel that has other things to do. Rows at other addresses it cannot take.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, tensor_map

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("tma_tile_copy.cu")

ROWS, COLUMNS = 128, 64
TILE_BYTES = 4 * ROWS * COLUMNS
THREADS, STAGES = 256, 3


@bench.workload(
    smoke={"rows": 311, "columns": 197}, cuda={"rows": 32768, "columns": 8192}, tall={"rows": 262144, "columns": 1024}
)
def inputs(rows, columns, device, generator):
    return {"matrix": torch.randn(rows, pitch_of(columns), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(matrix, columns):
    rows = matrix.shape[0]
    down, across = tiles_of(rows, columns)
    padding = (0, across * COLUMNS - columns, 0, down * ROWS - rows)
    whole = torch.nn.functional.pad(matrix[:, :columns], padding)
    return whole.view(down, ROWS, across, COLUMNS).transpose(1, 2).reshape(-1, ROWS, COLUMNS)


@bench.cost
def cost(rows, columns):
    down, across = tiles_of(rows, columns)
    return Cost(bytes_read=4 * rows * columns, bytes_written=TILE_BYTES * down * across)


bench.reach(of="SOL", at_least=0.92)


def pitch_of(columns):
    """Elements from one row to the next: one more than are used, and a multiple of four."""
    return columns // 4 * 4 + 4


def tiles_of(rows, columns):
    """How many tiles there are below each other, and beside each other."""
    return -(-rows // ROWS), -(-columns // COLUMNS)


def tiles_for(matrix, columns):
    """Memory for the tiles of a matrix."""
    down, across = tiles_of(matrix.shape[0], columns)
    return torch.empty(down * across, ROWS, COLUMNS, device=matrix.device)


class Kernel:
    """Launches a kernel whose blocks copy a tile with 256 threads."""

    name = ""

    def prepare(self, matrix, columns):
        self.out, self.kernel = tiles_for(matrix, columns), device_code.kernel(self.name)
        down, across = tiles_of(matrix.shape[0], columns)
        self.grid = (across, down)

    def run(self, matrix, columns):
        sizes = (matrix.shape[0], columns, matrix.shape[1])
        self.kernel(matrix, self.out, *sizes, grid=self.grid, block=THREADS, shared_bytes=TILE_BYTES)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="reasonable", name="load_store")
class LoadStore(Kernel):
    name = "load_store"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="cp_async",
    why="cp.async writes shared memory by itself: no register waits for data, and a thread has all its copies under "
    "way",
)
class CpAsync(Kernel):
    name = "cp_async"


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="tensor_copy",
    why="two instructions move 32 KiB: the copy engine computes the addresses, and knows pitch and edges from its map",
)
class TensorCopy:
    def prepare(self, matrix, columns):
        self.out, self.kernel = tiles_for(matrix, columns), device_code.kernel("tensor_copy")
        self.map = tensor_map(matrix[:, :columns], (ROWS, COLUMNS))
        down, across = tiles_of(matrix.shape[0], columns)
        self.grid = (across, down)

    def run(self, matrix):
        self.kernel(self.map, self.out, grid=self.grid, block=32, shared_bytes=TILE_BYTES)
        return self.out


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="tensor_ring",
    builds_on="tensor_copy",
    why="a block that stays has the next tiles coming while one leaves, and starts once",
)
class TensorRing:
    def prepare(self, matrix, columns):
        self.out, self.kernel = tiles_for(matrix, columns), device_code.kernel("tensor_ring")
        self.map = tensor_map(matrix[:, :columns], (ROWS, COLUMNS))
        down, self.across = tiles_of(matrix.shape[0], columns)
        self.tiles = down * self.across
        blocks = min(self.tiles, grid_that_fills(self.kernel, 32, STAGES * TILE_BYTES))
        self.launch = {"grid": blocks, "block": 32, "shared_bytes": STAGES * TILE_BYTES}

    def run(self, matrix):
        self.kernel(self.map, self.out, self.tiles, self.across, **self.launch)
        return self.out


@bench.yardstick(
    device="cuda", name="torch", why="copy_ into a view of the whole tiles, as torch copies strided arrays"
)
class Torch:
    def prepare(self, matrix, columns):
        self.out = tiles_for(matrix, columns).zero_()

    def run(self, matrix, columns):
        rows = matrix.shape[0]
        down, across = tiles_of(rows, columns)
        if rows % ROWS or columns % COLUMNS:
            whole = matrix.new_zeros(down * ROWS, across * COLUMNS)
            whole[:rows, :columns] = matrix[:, :columns]
        else:
            whole = matrix
        tiles = whole.as_strided(
            (down, across, ROWS, COLUMNS), (ROWS * whole.stride(0), COLUMNS, whole.stride(0), 1), whole.storage_offset()
        )
        return self.out.view(down, across, ROWS, COLUMNS).copy_(tiles).view(-1, ROWS, COLUMNS)
