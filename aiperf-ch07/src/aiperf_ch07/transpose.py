"""Transpose: both sides of a copy should be coalesced.

Workload   out[c, r] = in[r, c]: 16384^2 float32, or with `--size bf16` 8192 x 16384 bfloat16; `word_bytes` is 4 or 2.
Baseline   Reads along rows and writes along columns, so that each store of a warp opens 32 sectors (cpu: every store
           goes to another line).
Variants   cuda: `tiled`: through a tile of 64 x 64 in shared memory, whose columns lie in one bank.  `padded`: four
           bytes more a row spread a column over all banks.  `swizzled`: so does an exchange of words within a row,
           without more memory.  `wide`: 16-byte accesses to memory; 16-byte pieces are exchanged, which a padded row
           would not align.  `streaming`: with hints that no line is used again; this loses on an H200.
           `tensor_map`: the copy engine moves and swizzles the tiles.  cpu: `blocked`: 32 x 32 at a time, which stay
           in the cache.  `blocked_simd`: within those 8 x 8 words in registers.
Observe    `aiperf ch07 access-report ch07.transpose`: `load_conflicts` of `tiled`, none in `padded` and `swizzled`.
Breaks     Matrices that fit in the last-level cache, which puts the pieces of a line together before memory sees them.
           On a GPU L2 does some of that at any size: the baseline is less bad than its sectors predict. `tensor_map`
           needs rows of a multiple of 16 bytes.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source, tensor_map
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("transpose.cu"), host_source("transpose.c")

DTYPES = {4: torch.float32, 2: torch.bfloat16}
TILE = 64
# Of the box that the copy engine swizzles.
ROW_BYTES = 128


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


shapes = [(1, 1), (1, 97), (64, 64), (129, 67), (200, 328), (1024, 512)]
bench.awkward(*({"rows": rows, "columns": columns, "word_bytes": size} for rows, columns in shapes for size in (4, 2)))
cuda.reach(of="BW", at_least=0.92)
cuda.reach(of="BW", at_least=0.92, size="bf16")


def turned(a):
    """Memory for the transpose."""
    return torch.empty(a.shape[1], a.shape[0], dtype=a.dtype, device=a.device)


def box_map(tensor):
    """The tensor map for boxes of 64 rows of 128 bytes."""
    return tensor_map(tensor, (TILE, ROW_BYTES // tensor.element_size()), swizzle_bytes=ROW_BYTES)


turn = launch(device_code, kernel="{name}{word_bytes}", out=turned, grid=blocks(columns=TILE, rows=TILE))
loops = loop(host_code, kernel="{name}{word_bytes}", out=turned)

cuda.baseline(turn("direct", grid=blocks(columns=32, rows=32), block=(32, 8)), kind="naive")
cuda.variant(
    turn("tiled"),
    adds="shared memory tile",
    why="a tile turned in shared memory is read by rows and written by rows: both sides move whole lines",
)
cuda.variant(
    turn("padded"),
    builds_on="tiled",
    adds="padding",
    why="four bytes more a row put the words of a column into 32 banks; in one bank they were read one after the other",
)
cuda.variant(
    turn("swizzled"),
    builds_on="tiled",
    adds="swizzle",
    why="words exchanged by the number of their row spread a column over 32 banks, and rows stay aligned",
)
cuda.variant(
    turn("wide"),
    builds_on="swizzled",
    adds="wide accesses",
    why="16-byte accesses to memory: a quarter of the loads and stores, or an eighth for words of 2 bytes",
)
cuda.variant(
    turn("streaming"),
    builds_on="wide",
    adds="streaming hints",
    why="lines that are not used again leave L2 first, so that written lines stay until they are whole",
)
cuda.variant(
    turn(
        "tensor_map",
        make={"a_map": lambda a: box_map(a), "out_map": lambda out: box_map(out)},
        shared_bytes=lambda word_bytes: 2 * TILE * TILE * word_bytes,
    ),
    requires="sm_90",
    adds=("copy engine", "hardware swizzle"),
    why="the copy engine makes the addresses and swizzles both ways; threads only turn the tile in shared memory",
)

cpu.baseline(loops("direct"), kind="naive")
cpu.variant(
    loops("blocked"),
    adds="cache blocking",
    why="the lines of a 32 x 32 block stay in the cache until every word of them has been read or written",
)
cpu.variant(
    loops("blocked_simd"),
    requires="machine:x86_64",
    builds_on="blocked",
    adds="registers",
    why="8 x 8 words change places in registers: 16 accesses to the cache for 64 words, not 128",
)


@bench.yardstick(
    device=("cpu", "cuda"), name="torch", why="copy_ from the transposed view, as t().contiguous() does it"
)
class Torch:
    def prepare(self, a):
        self.out = turned(a)

    def run(self, a):
        return self.out.copy_(a.t())
