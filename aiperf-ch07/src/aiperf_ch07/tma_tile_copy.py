"""Tile copies: let the copy engine do the addressing.

Workload   Tiles of 128 x 64 float32 out of a 32768 x 8192 matrix, each to 32 KiB in a row, as a product by tiles wants
           its operands; and other such tiles back into a second matrix. Matrices have a pitch: their rows are at least
           one element longer than what is used of them, and start at multiples of 16 bytes. Tiles at the edges are
           filled up with zeros, of which nothing is written back.
Baseline   256 threads a tile: 16-byte loads, shared memory, 16-byte stores.
Variants   `cp_async`: the loads go to shared memory without registers.  `tensor_copy`: one lane asks the copy engine
           (TMA) for the tile and sends it off.  `tensor_ring`: three tiles a block in a grid that fills the chip. What
           they teach: on an H200 all three lose to threads, which are close to the rate of a copy by themselves. Seven
           blocks of `tensor_copy` fit on a multiprocessor and overlap without a ring; a ring asks for a tile only when
           the store before the last has read its place.
Breaks     Bandwidth is the bound of all four: what the copy engine saves is instructions, which a kernel with other
           work can use. Rows that start at other addresses are impossible for it.
"""

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills, tensor_map

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cuda": "threads alone come close to the rate of a copy; the copy engine saves instructions, not time"},
)
cuda = bench.on("cuda", requires="sm_80")
device_code = cuda_source("tma_tile_copy.cu")

ROWS, COLUMNS = 128, 64
TILE_BYTES = 4 * ROWS * COLUMNS
THREADS, STAGES = 256, 3


@bench.workload(smoke={"rows": 311, "columns": 197}, cuda={"rows": 32768, "columns": 8192})
def inputs(rows, columns, device, generator):
    draw = {"device": device, "generator": generator}
    down, across = tiles_of(rows, columns)
    return {
        "matrix": torch.randn(rows, pitch_of(columns), **draw),
        "tiles": torch.randn(down * across, ROWS, COLUMNS, **draw),
    }


@bench.reference(tolerance=exact)
def reference(matrix, tiles, columns):
    rows = matrix.shape[0]
    down, across = tiles_of(rows, columns)
    padding = (0, across * COLUMNS - columns, 0, down * ROWS - rows)
    whole = torch.nn.functional.pad(matrix[:, :columns], padding)
    back = tiles.view(down, across, ROWS, COLUMNS).transpose(1, 2).reshape(down * ROWS, across * COLUMNS)
    return {
        "tiles": whole.view(down, ROWS, across, COLUMNS).transpose(1, 2).reshape(-1, ROWS, COLUMNS),
        "matrix": back[:rows, :columns],
    }


@bench.cost
def cost(rows, columns):
    down, across = tiles_of(rows, columns)
    inside = 4 * rows * columns
    return Cost(bytes_read=2 * inside, bytes_written=inside + TILE_BYTES * down * across)


shapes = [(1, 1), (128, 64), (127, 65), (1031, 513), (2048, 1024)]
bench.awkward(*({"rows": rows, "columns": columns} for rows, columns in shapes))
bench.accept("cost.bytes_read", because="the padding of rows and of tiles at the edge need not be read")
cuda.reach(of="BW", at_least=0.92)


def pitch_of(columns):
    """Elements from one row to the next: one more than are used, and a multiple of four."""
    return columns // 4 * 4 + 4


def tiles_of(rows, columns):
    """How many tiles there are below each other, and beside each other."""
    return -(-rows // ROWS), -(-columns // COLUMNS)


class BothWays:
    """Launches a kernel, and its namesake for the way back, in the subclass's form."""

    name = ""

    def prepare(self, matrix, tiles, columns):
        back = torch.empty_like(matrix)
        self.out = {"tiles": torch.empty_like(tiles), "matrix": back[:, :columns]}
        self.there, self.back = device_code.kernel(self.name), device_code.kernel(f"{self.name}_back")
        self.down, self.across = tiles_of(matrix.shape[0], columns)


class Threads(BothWays):
    """A block of 256 threads for each tile."""

    def prepare(self, matrix, tiles, columns):
        super().prepare(matrix, tiles, columns)
        self.sizes = (matrix.shape[0], columns, matrix.shape[1])
        self.shape: dict[str, Any] = {"grid": (self.across, self.down), "block": THREADS, "shared_bytes": TILE_BYTES}

    def run(self, matrix, tiles):
        self.there(matrix, self.out["tiles"], *self.sizes, **self.shape)
        self.back(self.out["matrix"], tiles, *self.sizes, **self.shape)
        return self.out


class Engine(BothWays):
    """A warp for each tile, of which one lane works."""

    def prepare(self, matrix, tiles, columns):
        super().prepare(matrix, tiles, columns)
        self.maps = [tensor_map(one[:, :columns], (ROWS, COLUMNS)) for one in (matrix, self.out["matrix"])]
        self.sizes: tuple[int, ...] = (self.across,)
        self.shape = {"grid": self.down * self.across, "block": 32, "shared_bytes": TILE_BYTES}

    def run(self, tiles):
        self.there(self.maps[0], self.out["tiles"], *self.sizes, **self.shape)
        self.back(self.maps[1], tiles, *self.sizes, **self.shape)
        return self.out


@cuda.baseline(kind="reasonable")
class LoadStore(Threads):
    name = "load_store"


@cuda.variant(
    adds="asynchronous copies",
    why="cp.async writes shared memory by itself: no register waits for data, and a thread has all its copies under "
    "way",
)
class CpAsync(Threads):
    name = "cp_async"


@cuda.variant(
    requires="sm_90",
    adds="copy engine",
    why="two instructions move 32 KiB: the copy engine computes the addresses, and knows pitch and edges from its map",
)
class TensorCopy(Engine):
    name = "tensor_copy"


@cuda.variant(
    requires="sm_90",
    builds_on="tensor_copy",
    adds="persistent ring",
    why="a block that stays has the next tiles coming while one leaves, and starts once",
)
class TensorRing(Engine):
    name = "tensor_ring"

    def prepare(self, matrix, tiles, columns):
        super().prepare(matrix, tiles, columns)
        count = self.down * self.across
        self.sizes = (self.across, count)
        shared_bytes = STAGES * TILE_BYTES
        self.shape.update(grid=min(count, grid_that_fills(self.there, 32, shared_bytes)), shared_bytes=shared_bytes)


@cuda.yardstick(name="torch", why="copy_ between strided views of the whole tiles; edges take operations more")
class Torch:
    def prepare(self, matrix, tiles, columns):
        self.out = {"tiles": torch.empty_like(tiles), "matrix": torch.empty_like(matrix)[:, :columns]}

    def run(self, matrix, tiles, columns):
        rows = matrix.shape[0]
        if rows % ROWS or columns % COLUMNS:
            return reference(matrix, tiles, columns)
        shape = (*tiles_of(rows, columns), ROWS, COLUMNS)
        for to, source in ((self.out["tiles"], matrix), (self.out["matrix"], tiles)):
            views = [
                one.view(shape)
                if one.dim() == 3
                else one.as_strided(shape, (ROWS * one.stride(0), COLUMNS, one.stride(0), 1))
                for one in (to, source)
            ]
            views[0].copy_(views[1])
        return self.out
