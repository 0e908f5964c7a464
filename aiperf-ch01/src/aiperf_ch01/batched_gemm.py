"""Batched GEMM: many small matrix products are one call, not many.

Workload   C[i] = A[i] B[i] in float32 for a batch of small matrices: 40 of (32 x 256)(256 x 256), or with
           `--size cubes` 512 of 64^3. All of it fits in the L2 of a GPU, by design: the lesson is not about bandwidth.
Baseline   A loop that calls `mm` for each product. On a GPU each call is a launch that fills a fraction of the chip; on
           a CPU the cores split every product among them and meet again after it.
Variants   `graph` (cuda): the same launches, captured once and replayed, which takes away what the host spends on each.
           `grouped_triton`, `strided_triton` (cuda): one launch for all tiles of all products, that finds the matrices
           in a table of addresses, or by their stride.  `over_batch` (cpu): every core takes whole products.
Breaks     Products that fill the machine by themselves: then the loop costs nothing.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.graphs import captured
from aiperf_core.kernels import host_source, triton_ahead, triton_source

bench = Benchmark(goal="speed", clock="wall", cache="warm")
host_code = host_source("batched_gemm.c")

# Tiles are small, because there are few products to fill the chip with; flat ones for matrices of few rows.
FLAT = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}
SQUARE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
SIZES = {"m": "i32", "n": "i32", "k": "i32"}
tiles = triton_source(
    "batched_gemm_triton.py",
    *(
        triton_ahead(kernel, signature={**pointers, **SIZES}, constants=tile, num_warps=warps, num_stages=2)
        for kernel, pointers in (
            ("strided", {"a_ptr": "*fp32", "b_ptr": "*fp32", "c_ptr": "*fp32"}),
            ("grouped", {"table_ptr": "*i64"}),
        )
        for tile, warps in ((FLAT, 2), (SQUARE, 4))
    ),
)


@bench.workload(
    smoke={"batch": 3, "m": 5, "n": 37, "k": 17},
    cpu={"batch": 40, "m": 32, "n": 256, "k": 256},
    cuda={"batch": 40, "m": 32, "n": 256, "k": 256},
    cubes={"batch": 512, "m": 64, "n": 64, "k": 64},
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


bench.reach(of="time:bmm", at_most=1.1)


def product_like(a, b):
    """Memory for the products of two batches."""
    return torch.empty(a.shape[0], a.shape[1], b.shape[2], device=a.device, dtype=a.dtype)


@bench.baseline(device=("cpu", "cuda"), kind="naive")
class Loop:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        for left, right, product in zip(a, b, self.out, strict=True):
            torch.mm(left, right, out=product)
        return self.out


@bench.variant(device="cuda", why="one replay launches all products, which saves the host's time for each")
class Graph:
    def prepare(self, a, b):
        loop = Loop()
        loop.prepare(a, b)
        self.products = captured(loop.run, a, b)

    def run(self):
        return self.products.replay()


@bench.variant(
    device="cuda",
    requires=("sm_80", "package:triton"),
    why="one launch puts the tiles of all products on the chip at once, wherever a table says that their matrices lie",
)
class GroupedTriton:
    def prepare(self, a, b):
        self.out, self.kernel = product_like(a, b), tiles.kernel("grouped")
        rows = [[one.data_ptr() for one in trio] for trio in zip(a, b, self.out, strict=True)]
        self.table = torch.tensor(rows, device=a.device)
        self.grid, self.how = launch_for(self.out)

    def run(self, a, b):
        m, k, n = a.shape[1], a.shape[2], b.shape[2]
        self.kernel[self.grid](self.table, m, n, k, **self.how)
        return self.out


@bench.variant(
    device="cuda",
    requires=("sm_80", "package:triton"),
    why="one launch puts the tiles of all products on the chip at once; equal shapes in one array need no table",
)
class StridedTriton:
    def prepare(self, a, b):
        self.out, self.kernel = product_like(a, b), tiles.kernel("strided")
        self.grid, self.how = launch_for(self.out)

    def run(self, a, b):
        m, k, n = a.shape[1], a.shape[2], b.shape[2]
        self.kernel[self.grid](a, b, self.out, m, n, k, **self.how)
        return self.out


@bench.variant(
    device="cpu", requires="compiler", why="cores share the batch, not each product, and meet once instead of 40 times"
)
class OverBatch:
    def prepare(self, a, b):
        self.out, self.products = product_like(a, b), host_code.function("over_batch")

    def run(self, a, b):
        self.products(a, b, self.out, *a.shape[:2], b.shape[2], a.shape[2])
        return self.out


@bench.yardstick(device=("cpu", "cuda"), why="the library's batched product: MKL or oneDNN on a CPU, cuBLAS on a GPU")
class Bmm:
    def prepare(self, a, b):
        self.out = product_like(a, b)

    def run(self, a, b):
        return torch.bmm(a, b, out=self.out)


def launch_for(out):
    """The grid, one program for each tile of each product as (tiles, batch), and how to compile the kernel."""
    batch, m, n = out.shape
    tile, warps = (FLAT, 2) if m <= 32 else (SQUARE, 4)
    tiles_of_one = -(-m // tile["BLOCK_M"]) * -(-n // tile["BLOCK_N"])
    return (tiles_of_one, batch), {**tile, "num_warps": warps, "num_stages": 2}
