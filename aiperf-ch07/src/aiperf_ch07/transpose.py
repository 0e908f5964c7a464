"""Transpose: both sides of a copy should be coalesced.

Workload   out[c, r] = in[r, c]: 16384^2 float32, or with `--size bf16` 8192 x 16384 bfloat16; `word_bytes` is 4 or 2.
Baseline   Reads along rows and writes along columns, so that each store of a warp opens 32 sectors (cpu: every store
           goes to another line).
Variants   cuda: `tiled`: through a tile in shared memory, whose columns lie in one bank.  `padded`: one word more a row
           spreads them over all banks.  `swizzled`: 16-byte accesses, and an exchange of pieces in place of padding.
           `tensor_map`: the copy engine moves and swizzles the tiles.  cpu: `blocked`: 32 x 32 at a time, which stay in
           the cache.  `blocked_simd`: within those 8 x 8 words in registers.
Breaks     Matrices that fit in the last-level cache, which puts the pieces of a line together before memory sees them.
           On a GPU the L2 does some of that at any size: the baseline is less bad than sectors alone would have it.
"""

import torch

from aiperf_ch07.tensor_map import tensor_map
from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("transpose.cu")
host_code = host_source("transpose.c")

DTYPES = {4: torch.float32, 2: torch.bfloat16}
# Sides of the tiles: of one word an access, and of 16 bytes or the copy engine.
NARROW, WIDE = 32, 64
BOX, BOXES_BYTES = 32, 8 * 32 * 32 * 4


@bench.workload(
    smoke={"rows": 61, "columns": 131, "word_bytes": 4},
    cpu={"rows": 4096, "columns": 8192, "word_bytes": 4},
    cuda={"rows": 16384, "columns": 16384, "word_bytes": 4},
    bf16={"rows": 8192, "columns": 16384, "word_bytes": 2},
)
def inputs(rows, columns, word_bytes, device, generator):
    a = torch.randn(rows, columns, device=device, generator=generator, dtype=torch.float32)
    return {"a": a.to(DTYPES[word_bytes])}


@bench.reference(tolerance=exact)
def reference(a):
    return a.t().contiguous()


@bench.cost
def cost(rows, columns, word_bytes):
    return Cost(bytes_read=word_bytes * rows * columns, bytes_written=word_bytes * rows * columns)


bench.reach(of="BW", at_least=0.92)


def turned(a):
    """Memory for the transpose."""
    return torch.empty(a.shape[1], a.shape[0], dtype=a.dtype, device=a.device)


class Kernel:
    """Launches the kernel for words of this size, a block for each square tile of the matrix."""

    name = ""
    side = NARROW
    block: tuple[int, ...] = (32, 8)

    def prepare(self, a):
        self.out, self.kernel = turned(a), device_code.kernel(f"{self.name}{a.element_size()}")
        self.grid = (-(-a.shape[1] // self.side), -(-a.shape[0] // self.side))

    def run(self, a):
        self.kernel(a, self.out, *a.shape, grid=self.grid, block=self.block)
        return self.out


class HostLoop:
    """Calls the loop for words of this size."""

    name = ""

    def prepare(self, a):
        if f"{self.name}{a.element_size()}" not in host_code.names():
            raise SkipError(f"is not written for words of {a.element_size()} bytes")
        self.out, self.loop = turned(a), host_code.function(f"{self.name}{a.element_size()}")

    def run(self, a):
        self.loop(a, self.out, *a.shape)
        return self.out


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="direct")
class Direct(Kernel):
    name = "direct"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="tiled",
    why="a tile turned in shared memory is read by rows and written by rows: both sides move whole lines",
)
class Tiled(Kernel):
    name = "tiled"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="padded",
    builds_on="tiled",
    why="one word more a row puts the 32 words of a column into 32 banks, where they were read one after the other",
)
class Padded(Kernel):
    name = "padded"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="swizzled",
    builds_on="padded",
    why="16-byte accesses to memory; exchanged pieces keep banks apart where a padded row would not be aligned",
)
class Swizzled(Kernel):
    name, side, block = "swizzled", WIDE, (256,)


@bench.variant(
    device="cuda",
    requires="sm_90",
    name="tensor_map",
    why="the copy engine makes the addresses and swizzles both ways; threads only turn the tile in shared memory",
)
class TensorMap:
    def prepare(self, a):
        if a.element_size() != 4:
            raise SkipError(f"is not written for words of {a.element_size()} bytes")
        self.out, self.kernel = turned(a), device_code.kernel("tensor_map")
        self.maps = [tensor_map(one, (BOX, BOX), swizzle_bytes=128) for one in (a, self.out)]
        self.grid = (-(-a.shape[1] // WIDE), -(-a.shape[0] // WIDE))

    def run(self, a):
        self.kernel(*self.maps, grid=self.grid, block=256, shared_bytes=BOXES_BYTES)
        return self.out


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="direct")
class DirectLoop(HostLoop):
    name = "direct"


@bench.variant(
    device="cpu",
    requires="compiler",
    name="blocked",
    why="the lines of a 32 x 32 block stay in the cache until every word of them has been read or written",
)
class BlockedLoop(HostLoop):
    name = "blocked"


@bench.variant(
    device="cpu",
    requires=("compiler", "machine:x86_64"),
    name="blocked_simd",
    builds_on="blocked",
    why="8 x 8 words change places in registers: 16 accesses to the cache for 64 words, not 128",
)
class BlockedSimdLoop(HostLoop):
    name = "blocked_simd"


@bench.yardstick(
    device=("cpu", "cuda"), name="torch", why="copy_ from the transposed view, as t().contiguous() does it"
)
class Torch:
    def prepare(self, a):
        self.out = turned(a)

    def run(self, a):
        return self.out.copy_(a.t())
