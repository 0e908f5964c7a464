"""The gate of SwiGLU in the product's epilogue: what registers hold needs no trip to memory.

Question    SwiGLU is two products and a gate, silu(x gate) * (x up). What does the gate cost behind them, and inside?
Numbers     8192 tokens, width 4096, hidden 14336, bfloat16: 1.92 TFLOP, 2.4 ms at the rate of products; 0.54 GB of
            operands and result. Eager stores both products and moves 4 bytes a value for silu and 6 for the product
            with up, 1.2 GB, 0.28 ms; one pass over both moves 6, 0.17 ms.
Prediction  1.04x from one pass, 1.11x from an epilogue at the library's rate of products. A tile of 128 x 128 of both
            products has the sums, and the bytes of L2, of one of 128 x 256; the gate is an exponential and a division
            for 8192 multiply-adds. A kernel that multiplies at 0.9 of the library's rate loses all of it.
Limits      Gate and products are in the proportion 1 / width: at width 1024 (`--size narrow`) up to 1.45x. Few tokens
            read weights at the rate of memory, and the gate is small. A backward pass needs both products again.
"""

import math

import torch
from torch.nn import functional

from aiperf_ch14.descriptors import described
from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.kernels import triton_ahead, triton_source
from aiperf_core.launches import launch

bench = Benchmark(goal="speed", clock="device")
cuda = bench.on("cuda", requires=("sm_80", "package:triton"))

# Sums of both products: 128 float32 registers of each of 256 threads. A step: 16 KB of x, of gate and of up. Three
# steps are 144 KB, of 163 on sm_80 and of 227 on sm_90, where the result's 32 KB fit beside them.
TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64}
GROUP, BLOCK = 16, 1024
OPTIONS = {"num_warps": 8, "num_stages": 3}

BLOCKS = {"x_in": (128, 64), "gate_in": (64, 128), "up_in": (64, 128), "out_in": (128, 128)}


def ahead(kernel):
    """The compilation of a kernel that takes descriptors, for the sizes of the preset `cuda`."""
    signature = {name: f"tensordesc<bf16[{rows}, {columns}]>" for name, (rows, columns) in BLOCKS.items()}
    signature |= dict.fromkeys(("tokens", "width", "hidden"), "i32:16")
    return triton_ahead(kernel, signature=signature, constants=TILE | {"GROUP": GROUP}, **OPTIONS)


kernels = triton_source(
    "gemm_epilogue_triton.py",
    ahead("descriptors"),
    archs=("sm_80", "sm_90"),
    launched_by=("one_pass",),
)


@bench.workload(
    smoke={"tokens": 140, "width": 72, "hidden": 136},
    cuda={"tokens": 8192, "width": 4096, "hidden": 14336},
    narrow={"tokens": 8192, "width": 1024, "hidden": 14336},
)
def inputs(tokens, width, device, generator):
    return {"x": torch.randn(tokens, width, device=device, generator=generator).bfloat16()}


@bench.static
def parameters(width, hidden, device, generator):
    def drawn():
        return (torch.randn(width, hidden, device=device, generator=generator) / math.sqrt(width)).bfloat16()

    return {"gate": drawn(), "up": drawn()}


@bench.reference(tolerance=bf16)
def reference(x, gate, up):
    return functional.silu(x @ gate) * (x @ up)


@bench.cost
def cost(tokens, width, hidden):
    return Cost(
        bytes_read=2 * width * (tokens + 2 * hidden),
        bytes_written=2 * tokens * hidden,
        flops=4 * tokens * width * hidden,
        precision="bf16",
    )


# One element; a whole tile; primes; a width without a whole step, and more rows of tiles than a group.
bench.awkward(
    {"tokens": 1, "width": 1, "hidden": 1},
    {"tokens": 128, "width": 64, "hidden": 128},
    {"tokens": 131, "width": 67, "hidden": 257},
    {"tokens": 2200, "width": 8, "hidden": 144},
)
# 0.95 of the time of the products, at 0.92 of the library's rate: that of Triton's products in this chapter.
cuda.reach(of="MM:bf16", at_least=0.87)
# 0.89 ms, of which 0.61 are products, at 0.8 of the library's rate with 16 steps a tile.
cuda.reach(of="speedup", at_least=1.15, size="narrow")


@cuda.baseline(kind="reasonable")
def eager(x, gate, up):
    return functional.silu(x @ gate) * (x @ up)


@cuda.variant(
    adds="concatenated weights",
    why="one product of twice the columns reads x once, and is one launch",
    predict="0.8 to 1.0x: x is read once, 0.07 GB less, but eager operators take halves of rows element by element",
    teaches="two products fill the GPU as one does; halves of a wide result are views with gaps, which eager kernels "
    "do not read 16 bytes at a time",
)
class Concatenated:
    def prepare(self, x, gate, up):
        self.weights = torch.cat([gate, up], 1)
        self.wide = x.new_empty(len(x), self.weights.shape[1])

    def run(self, x):
        gate, up = torch.mm(x, self.weights, out=self.wide).chunk(2, -1)
        return functional.silu(gate) * up


@cuda.variant(
    builds_on="concatenated",
    adds="gate in one pass",
    why="silu and the product with up are one kernel: what is between them is not stored",
    predict="1.1 to 1.25x: 6 in place of 10 bytes a value, and 16 bytes at a time: 0.2 in place of some 0.7 ms",
)
class OnePass(Concatenated):
    def prepare(self, x, gate, up):
        super().prepare(x, gate, up)
        self.hidden = gate.shape[1]
        self.out = x.new_empty(len(x), self.hidden)
        self.gated = kernels.kernel("gated")[(len(x), -(-self.hidden // BLOCK))]

    def run(self, x):
        torch.mm(x, self.weights, out=self.wide)
        self.gated(self.wide, self.out, self.hidden, BLOCK=BLOCK)
        return self.out


def tiles(tokens, hidden):
    return -(-tokens // TILE["ROWS"]) * -(-hidden // TILE["COLUMNS"])


in_tiles = launch(kernels, out=("x", ("tokens", "hidden")), grid=tiles, make=TILE | {"GROUP": GROUP}, options=OPTIONS)
by_descriptors = {
    "x_in": lambda x: described(x, BLOCKS["x_in"]),
    "gate_in": lambda gate: described(gate, BLOCKS["gate_in"]),
    "up_in": lambda up: described(up, BLOCKS["up_in"]),
    "out_in": lambda out: described(out, BLOCKS["out_in"]),
}

cuda.variant(
    in_tiles("dual"),
    builds_on="one_pass",
    adds="gate in the epilogue",
    why="a program has the tiles of both products in registers, and stores their gated product alone",
    predict="0.78 to 0.95x: 0.17 of 2.6 ms less, but products of pointers at some 0.8 of the library's rate",
    teaches="the gate is a sixteenth of the time: a product of pointers loses more than that to the library's",
)
cuda.variant(
    in_tiles("descriptors", make=by_descriptors),
    requires=("sm_90", "package:triton"),
    builds_on="dual",
    adds="tensor descriptors",
    why="one thread asks the copy engine (TMA) for a block; no thread computes addresses, issues copies or stores",
    predict="1.0 to 1.4x: 12 copies of 16 bytes a thread and step, and their 64-bit addresses, beside 1024 cycles",
)
