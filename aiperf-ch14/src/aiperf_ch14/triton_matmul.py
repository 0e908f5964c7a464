"""A matrix product in Triton: the compiler has the instructions, the author the tile, the stages and the order.

Question    What is left to do by hand for a product at the rate of the library, if the compiler chooses instructions?
Numbers     8192 x 8192 x 8192 in bfloat16: 1.1 TFLOP, 1.4 ms at the rate of products; 0.4 GB, 0.1 ms. Tiles of 64 x 64
            read 34 GB from L2, 128 x 256 13 GB. A large tile is alone on its SM: a step of 64, 48 KB, is 1024 cycles
            of tensor cores, and as long again for its loads, if these are not under way before.
Prediction  Bytes of L2 allow 2.7x for the tile, loads in turns with products take back up to half of it, stages return
            that. Row by row, the 132 tiles at work read all of B: 2.3 GB from memory in 16 waves; in groups of 16 rows
            of tiles 1.1 GB. Persistent programs hide the store of a tile and the first loads of the next, 64 KB and 96
            KB beside 6 MB.
Limits      At a depth of 512 (`--size shallow`) a tile has 8 steps: what comes before and after them weighs 16 times as
            much. 1000 x 1000 x 1000 (`--size ragged`) has 32 large tiles for 132 SMs, and rows of which Triton knows no
            alignment. `descriptors` needs Hopper's copy engine, and rows of multiples of 16 bytes.
"""

import math

import torch

from aiperf_ch14.descriptors import described
from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import triton_ahead, triton_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

SMALL = {"ROWS": 64, "COLUMNS": 64, "DEPTH": 32}
# Sums: 128 float32 registers of each of 256 threads. A step: 48 KB. Three steps are 144 KB, of 163 on sm_80 and of 227
# on sm_90, where the tile of the result in bfloat16, 64 KB, fits beside them.
LARGE = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64}
WARPS, STAGES, GROUP = 8, 3, 16

BLOCKS = {"a_in": (128, 64), "b_in": (64, 256), "out_in": (128, 256)}
kernels = triton_source(
    "triton_matmul_triton.py",
    triton_ahead(
        "descriptors",
        signature={name: f"tensordesc<bf16[{rows}, {columns}]>" for name, (rows, columns) in BLOCKS.items()}
        | dict.fromkeys(("rows", "columns", "depth"), "i32:16"),
        constants=LARGE | {"GROUP": GROUP},
        num_warps=WARPS,
        num_stages=STAGES,
    ),
    archs=("sm_80", "sm_90"),
)


@bench.workload(
    smoke={"rows": 200, "columns": 264, "depth": 72},
    cuda={"rows": 8192, "columns": 8192, "depth": 8192},
    shallow={"rows": 4096, "columns": 4096, "depth": 512},
    ragged={"rows": 1000, "columns": 1000, "depth": 1000},
)
def inputs(rows, columns, depth, device, generator):
    b = torch.randn(depth, columns, device=device, generator=generator) / math.sqrt(depth)
    return {"a": torch.randn(rows, depth, device=device, generator=generator).bfloat16(), "b": b.bfloat16()}


@bench.reference(tolerance=bf16)
def reference(a, b):
    return a @ b


@bench.cost
def cost(rows, columns, depth):
    return Cost(
        bytes_read=2 * depth * (rows + columns),
        bytes_written=2 * rows * columns,
        flops=2 * rows * columns * depth,
        precision="bf16",
    )


# One element; whole tiles; primes; fewer than a tile, and more rows of tiles than a group.
bench.awkward(
    {"rows": 1, "columns": 1, "depth": 1},
    {"rows": 128, "columns": 256, "depth": 64},
    {"rows": 257, "columns": 131, "depth": 67},
    {"rows": 3, "columns": 8, "depth": 16},
    {"rows": 2200, "columns": 272, "depth": 8},
)
cuda.reach(of="time:cublas", at_most=1.09)  # 0.92 of its rate


def tiles(tile):
    """The grid of one program a tile."""
    return lambda rows, columns: -(-rows // tile["ROWS"]) * -(-columns // tile["COLUMNS"])


def programs(a, rows, columns):
    """One an SM, and no more than tiles; a few for the interpreter, which has no SMs."""
    sms = torch.cuda.get_device_properties(a.device).multi_processor_count if a.device.type == "cuda" else 3
    return min(sms, tiles(LARGE)(rows, columns))


in_tiles = launch(
    kernels,
    kernel="product",
    out=("a", ("rows", "columns")),
    grid=tiles(LARGE),
    make=LARGE | {"GROUP": GROUP},
    options={"num_warps": WARPS, "num_stages": STAGES},
)

cuda.baseline(
    in_tiles("small_tiles", grid=tiles(SMALL), make=SMALL | {"GROUP": 1}, options={"num_warps": 4, "num_stages": 1}),
    kind="naive",
)
cuda.variant(
    in_tiles("large_tiles", make={"GROUP": 1}, options={"num_warps": WARPS, "num_stages": 1}),
    adds="large tile",
    why="a tile of 128 x 256 reads 13 GB from L2 for the same products, where tiles of 64 x 64 read 34 GB",
    predict="1.0 to 2.7x: 2.7 times fewer bytes from L2, less what loads in turns with products take back",
    teaches="one program an SM has nothing to do while its loads are under way",
)
cuda.variant(
    in_tiles("staged", make={"GROUP": 1}),
    builds_on="large_tiles",
    adds="stages",
    why="two steps are copied to shared memory while the tensor cores multiply a third",
    predict="1.6 to 3.5x: 1024 cycles of products a step, no longer in turns with 48 KB of loads and their latency",
)
cuda.variant(
    in_tiles("grouped"),
    builds_on="staged",
    adds="grouped order",
    why="the tiles at work are 16 rows of tiles by 8 columns and share what they read: half the bytes come from memory",
    predict="1.0 to 1.2x: 1.1 in place of 2.3 GB from memory, 0.3 ms less of it beside 1.4 ms of products",
    teaches="memory delivers even the bytes of a bad order in half the time of the products",
)
cuda.variant(
    in_tiles("persistent", kernel="persistent", grid=programs),
    builds_on="grouped",
    adds="persistent programs",
    why="the loads of the next tile are under way while the results of one are stored",
    predict="0.9 to 1.1x: 1 to 2 us of start and store a tile, of 16 tiles of 90 us",
    teaches="with 128 steps a tile, start and store are 2 %: less than the addresses of two loops in one may cost "
    "(`--size shallow` has 8 steps)",
)
cuda.variant(
    in_tiles(
        "descriptors",
        kernel="descriptors",
        grid=programs,
        make={
            "a_in": lambda a: described(a, BLOCKS["a_in"]),
            "b_in": lambda b: described(b, BLOCKS["b_in"]),
            "out_in": lambda out: described(out, BLOCKS["out_in"]),
        },
    ),
    requires=("sm_90", "package:triton"),
    builds_on="persistent",
    adds="tensor descriptors",
    why="one thread asks the copy engine (TMA) for a block; no thread computes addresses, issues copies or stores",
    predict="1.0 to 1.4x: 12 copies of 16 bytes a thread and step, and their 64-bit addresses, beside 1024 cycles",
)


@cuda.yardstick(why="torch.mm, which is cuBLAS")
class Cublas:
    def prepare(self, a, rows, columns):
        self.out = a.new_empty(rows, columns)

    def run(self, a, b):
        return torch.mm(a, b, out=self.out)
