"""Transpose: both sides of a copy should be coalesced.

Question    What does a transpose cost beyond a copy, and which of its two sides pays?
Numbers     out[c, r] = in[r, c]: 16384^2 float32, or with `--size bf16` 8192 x 16384 bfloat16; `word_bytes` is 4 or 2.
            Each word is read and written once: 2.1 GB, 0.50 ms at the rate of a copy. Tiles of 64 x 64, a block of 256
            threads each.
Prediction  `direct` stores a word to each of 32 lines, where a whole line would do. `tiled` reads a column in one bank:
            33 wavefronts for each 32 words, 2^23 x 33 on 132 SMs at 1.98 GHz take 1.06 ms, twice the time of memory.
            `padded` and `swizzled` take 2 wavefronts, and then memory is the bound: both should be equal.
Limits      Matrices that fit in L2, which puts the pieces of a line together before memory sees them; it does some of
            that at any size, so `direct` is less bad than its sectors predict. A padded row is not aligned to 16 bytes,
            so `wide` swizzles. `tensor_map` needs rows of a multiple of 16 bytes. cpu: every store of `direct` goes to
            another line.
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
# Of the box that TMA swizzles.
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
    predict="1.7 to 2.4x: 0.50 ms of memory, where a column in one bank takes 1.06 ms of wavefronts",
    why="four bytes more a row put the words of a column into 32 banks; in one bank they were read one after the other",
)
cuda.variant(
    turn("swizzled"),
    builds_on="tiled",
    adds="swizzle",
    predict="1.7 to 2.4x: 0.50 ms of memory, where a column in one bank takes 1.06 ms of wavefronts",
    why="words exchanged by the number of their row spread a column over 32 banks, and rows stay aligned",
)
cuda.variant(
    turn("wide"),
    builds_on="swizzled",
    adds="wide accesses",
    why="16-byte accesses to memory: a quarter of the loads and stores, or an eighth for words of 2 bytes",
    teaches="a thread has 64 bytes under way in either form, and memory is the bound: fewer instructions gain nothing",
)
cuda.variant(
    turn("streaming"),
    builds_on="wide",
    adds="streaming hints",
    why="hints that no line is used again: lines that were read leave L2 first",
    teaches="a block reads and writes whole lines already: L2 has nothing to put together, and the hint gains nothing",
)
cuda.variant(
    turn(
        "tensor_map",
        make={"a_map": lambda a: box_map(a), "out_map": lambda out: box_map(out)},
        shared_bytes=lambda word_bytes: 2 * TILE * TILE * word_bytes,
    ),
    requires="sm_90",
    adds=("tma", "hardware swizzle"),
    why="TMA makes the addresses and swizzles both ways; threads only turn the tile in shared memory",
)
# Layouts differ in nothing but places: on an H200 each thread has all its 16 loads under way before it stores a word.
for layout in ("tiled", "padded", "swizzled"):
    for kernel, bits in ((f"{layout}4", "32"), (f"{layout}2", "U16")):
        bench.sass(kernel, has=tuple(f"{one}.{bits}" for one in ("LDG", "STS", "LDS", "STG")), lacks="LDG.128")
        bench.sass(kernel, loads_before_first_store=16, arch="sm_90")
for form in ("wide", "streaming"):
    bench.sass(f"{form}4", has=("LDG.128", "STS.128", "LDS.32", "STG.128"))

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
