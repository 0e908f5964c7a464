"""Early starts: the next kernel's prologue runs while this one ends.

Question    Layers of one token are chains of short kernels that wait for each other. How much of a kernel can run while
            the one before it still does?
Numbers     48 layers of a norm, a product with a bfloat16 matrix of 2048 x 2048, and silu: 144 kernels, and 403 MB of
            weights, 96 us at 4.2 TB/s, 2 us a layer. A node of a graph takes some 1.1 us from one kernel to the next.
Prediction  As a graph a layer takes 2 us and three nodes, each with its first loads, 5 to 8 us. Programmatic edges
            place blocks early and keep what else is between two kernels: the one's stores, the other's loads. Weights
            that are read before the wait are there when h is: some 2 us a layer. One kernel for all layers has a
            barrier a layer: a store, a counter and its readers, each a trip to L2 of 0.7 us beside the next weights,
            and then a read of x.
Limits      Kernels that fill the chip: the next one's blocks find no place before the end. What a prologue may read is
            what no kernel of the chain writes. One kernel for all layers needs all its blocks on the chip at once.
"""

import math

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import SkipError
from aiperf_core.graphs import done, graphed
from aiperf_core.kernels import cuda_driver, cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="device", cache="warm")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("pdl_chain.cu", instances=("gemv<false>", "gemv<true>"))

THREADS, ROWS, WARP = 512, 16, 32
LONGEST = 4 * THREADS  # four columns a thread


@bench.workload(
    smoke={"layers": 3, "width": 132},
    cuda={"layers": 48, "width": 2048},
    narrow={"layers": 48, "width": 512},
)
def inputs(width, device, generator):
    return {"x": torch.randn(width, device=device, generator=generator)}


@bench.static
def weights_of(layers, width, device, generator):
    normal = torch.randn(layers, width, width, device=device, generator=generator) / math.sqrt(width)
    return {"weights": normal.to(torch.bfloat16)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, weights):
    for weight in weights:
        h = x * torch.rsqrt(x.square().mean() + 1e-6)
        x = x + torch.nn.functional.silu(weight.to(x.dtype) @ h)
    return x


@bench.cost
def cost(layers, width):
    weights = layers * width * width
    return Cost(bytes_read=2 * weights + 4 * width, bytes_written=4 * width, flops=2 * weights)


def cost_of_kernels(layers, width):
    """Three kernels a layer, one after another."""
    return evolve(cost(layers, width), launches=3 * layers)


# The fewest columns, a block that is partly full, and the most; one layer, and an odd number.
bench.awkward(
    {"layers": 1, "width": 4}, {"layers": 2, "width": 68}, {"layers": 5, "width": 1028}, {"layers": 2, "width": 2048}
)
# 2 us of weights beside a barrier, and a read of x of 0.7 us.
cuda.reach(
    of="RBW",
    at_least=0.75,
    implementation="persistent",
    cause="the time is that of trips to L2 in a row: with a sixteenth of the weights most of it is left",
    shown_by="size:width=512",
)
bench.sass("gemv<true>", has=("PREEXIT", "ACQBULK", "LDG.64"), arch="sm_90")


class Chain:
    """Three kernels a layer, which C launches."""

    early, gemv = False, "gemv<false>"

    def prepare(self, x, weights):
        width = len(x)
        if width % 4 or width > LONGEST:
            raise SkipError(f"takes a multiple of 4 columns, at most {LONGEST}; got {width}")
        self.h, self.y, self.state = (torch.empty_like(x) for _ in range(3))
        self.calls, source = Recording(), x
        for weight in weights.view(torch.int16):
            self.launch("normalise", self.h, source, width, grid=1)
            self.launch(self.gemv, self.y, self.h, weight, width, grid=-(-width // ROWS))
            self.launch("add_silu", self.state, source, self.y, width, grid=-(-width // THREADS))
            source = self.state

    def launch(self, kernel, *args, grid):
        self.calls.launch(device_code.kernel(kernel), *args, grid=grid, block=THREADS, early=self.early)

    def run(self):
        self.calls.play()
        return self.state


class EarlyChain(Chain):
    early = True


class WeightsAhead(EarlyChain):
    gemv = "gemv<true>"


cuda.baseline(graphed(Chain), name="graph", kind="reasonable", cost=cost_of_kernels)
cuda.variant(
    graphed(EarlyChain),
    name="programmatic",
    requires="sm_90",
    cost=cost_of_kernels,
    adds="programmatic edges",
    why="the blocks of a kernel are placed while the one before it runs, and wait on the chip for its end",
    predict="1.0 to 1.2x: of some 1.1 us between two kernels, what places the blocks of the next",
)
cuda.variant(
    graphed(WeightsAhead),
    name="weights_ahead",
    requires="sm_90",
    cost=cost_of_kernels,
    builds_on="programmatic",
    adds="loads before the wait",
    why="a block of the product has its weights before h is there: they are read beside the norm and the silu before",
    predict="1.2 to 1.8x: 2 us of weights beside two other nodes, not behind them",
)


@cuda.variant(
    requires="sm_80",
    adds=("one kernel", "grid barrier"),
    why="a layer is a product and a barrier of all blocks, which meanwhile have the next layer's weights under way",
    predict="1.4 to 2.2x: 2 us of weights or a barrier, whichever is longer, then 1.1 us for x, in place of 5 to 8 us",
)
class Persistent:
    def prepare(self, x, weights):
        layers, width = len(weights), len(x)
        if width % 4 or width > LONGEST:
            raise SkipError(f"takes a multiple of 4 columns, at most {LONGEST}; got {width}")
        kernel, blocks, block = device_code.kernel("all_layers"), -(-width // ROWS), THREADS + WARP
        if (held := grid_that_fills(kernel, block)) < blocks:
            raise SkipError(f"needs {blocks} blocks on the chip at once; this GPU holds {held}")
        self.out, self.xs = torch.empty_like(x), x.new_empty(2, width)
        self.arrived = torch.zeros(1, dtype=torch.int32, device=x.device)
        given = (self.out, x, weights.view(torch.int16), self.xs, self.arrived, layers, width)
        self.bound = kernel.bound(given, blocks, block)

    def run(self):
        self.arrived.zero_()
        function, *shape, parameters = self.bound.numbers
        stream = torch.cuda.current_stream().cuda_stream
        done(cuda_driver().cuLaunchCooperativeKernel(function, *shape, stream, parameters))
        return self.out
