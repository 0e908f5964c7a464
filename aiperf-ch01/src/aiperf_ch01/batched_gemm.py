"""Batched GEMM: many small matrix products are one call, not many.

Question    How much of a loop over small matrix products is launches, and how much an idle chip?
Numbers     40 products of 32 x 256 x 256 in float32, 13 MB that stay in L2: 8 GFLOP are microseconds. A product has 16
            tiles for 132 SMs; all products have 640.
Prediction  A graph removes the host's part of 40 launches; one launch of all tiles also fills the chip.
Limits      Products that fill the machine by themselves: the loop then costs nothing. A table of addresses serves
            matrices that lie anywhere; a stride needs them in one array.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.graphs import graphed
from aiperf_core.kernels import host_source, triton_ahead, triton_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="wall", cache="warm")
both, cuda, cpu = bench.on(("cpu", "cuda")), bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("batched_gemm.c")

# Tiles are small and flat, because the products are few and have few rows.
BLOCK_M, BLOCK_N = 16, 32
TILE = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_K": 64}
COMPILED = {"num_warps": 2, "num_stages": 2}
# A table of addresses tells no types.
GROUPED = {"table_ptr": "*i64:16", "m": "i32:16", "n": "i32:16", "k": "i32:16"}
tiles = triton_source("batched_gemm_triton.py", triton_ahead("grouped", signature=GROUPED, constants=TILE, **COMPILED))


@bench.workload(
    smoke={"batch": 3, "m": 5, "n": 37, "k": 17},
    cpu={"batch": 40, "m": 32, "n": 256, "k": 256},
    cuda={"batch": 40, "m": 32, "n": 256, "k": 256},
)
def inputs(batch, m, n, k, device, generator):
    return {
        "a": torch.randn(batch, m, k, device=device, generator=generator),
        "b": torch.randn(batch, k, n, device=device, generator=generator),
    }


@bench.reference(tolerance=fp32)
def reference(a, b):
    return torch.stack([left @ right for left, right in zip(a, b, strict=True)])


@bench.cost
def cost(batch, m, n, k):
    return Cost(
        bytes_read=4 * batch * (m * k + k * n),
        bytes_written=4 * batch * m * n,
        flops=2 * batch * m * n * k,
        precision="fp32",
    )


# A single element; edges in every direction, in the batch too.
bench.awkward(
    {"batch": 1, "m": 1, "n": 1, "k": 1},
    {"batch": 2, "m": 7, "n": 33, "k": 64},
    {"batch": 7, "m": 97, "n": 101, "k": 103},
)
cuda.reach(of="time:bmm_graph", at_most=1.1)
cuda.reach(of="LAT", at_most=2.0)


def product_like(a, b):
    """Memory for the products of two batches."""
    return torch.empty(a.shape[0], a.shape[1], b.shape[2], device=a.device, dtype=a.dtype)


@both.baseline(kind="naive")
class Loop:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        for left, right, product in zip(a, b, self.out, strict=True):
            torch.mm(left, right, out=product)
        return self.out


cuda.variant(
    graphed("loop"),
    name="graph",
    adds="graph",
    why="one replay launches all products, which saves the host's time for each",
)


def tiles_and_products(batch, m, n):
    """The grid: a program for each tile of each product."""
    return (-(-m // BLOCK_M) * -(-n // BLOCK_N), batch)


def table(a, b, out):
    """The addresses of A, B and C, a row for each product."""
    rows = [[matrix.data_ptr() for matrix in product] for product in zip(a, b, out, strict=True)]
    return torch.tensor(rows, device=a.device)


all_tiles = launch(tiles, out=product_like, grid=tiles_and_products, make=TILE, options=COMPILED)
on_triton = bench.on("cuda", requires=("sm_80", "package:triton"))

on_triton.variant(
    all_tiles("grouped_triton", kernel="grouped", make={"table": table}),
    adds=("one launch", "address table"),
    why="one launch puts the tiles of all products on the chip at once; a table says where their matrices lie",
)
on_triton.variant(
    all_tiles("strided_triton", kernel="strided"),
    adds="one launch",
    why="one launch puts the tiles of all products on the chip at once; equal shapes in one array need no table",
)


on_triton.variant(
    graphed("strided_triton"),
    name="strided_graph",
    builds_on="strided_triton",
    adds="graph",
    why="a replay costs the host less than Triton's launcher, which looks at every argument in Python",
)

cpu.variant(
    loop(host_code, out=product_like)("over_batch"),
    adds="whole products a core",
    why="the cores share the batch instead of each product, and meet once instead of once a product",
)


@both.yardstick(why="the library's batched product: MKL or oneDNN on a CPU, cuBLAS on a GPU")
class Bmm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.bmm(a, b, out=self.out)


cuda.yardstick(
    graphed("bmm"), name="bmm_graph", why="the library's batched product in a graph, as the best variant is launched"
)
