"""Early starts: the next kernel's prologue runs while this one ends.

Question    Layers of one token are chains of short kernels that wait for each other. How much of a kernel can run while
            the one before it still does?
Numbers     48 layers of a norm, a product with a bfloat16 matrix of 2048 x 2048, and silu: 144 kernels, and 403 MB of
            weights, 96 us at 4.2 TB/s, 2 us a layer. A node of a graph takes some 1.1 us from one kernel to the next.
Prediction  As a graph a layer takes 2 us and three nodes, each with its first loads, 5 to 8 us. Programmatic edges
            place blocks early and keep what else is between two kernels: the one's stores, the other's loads. Weights
            that are read before the wait are there when h is: some 2 us a layer. One kernel for all layers has a
            barrier a layer: a store, a counter and its readers, each a trip to L2 of 0.7 us, and then a read of x.
            Values that say of which layer they are need a store and a read.
Limits      Kernels that fill the chip: the next one's blocks find no place before the end. What a prologue may read is
            what no kernel of the chain writes. One kernel for all layers needs all its blocks on the chip at once.
"""

import math

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.graphs import done, graphed
from aiperf_core.kernels import cuda_driver, cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="device", cache="warm")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source(
    "pdl_chain.cu", instances=("gemv<false>", "gemv<true>", "flagged_layers<false>", "flagged_layers<true>")
)

THREADS, ROWS, STAGES, WARP = 512, 16, 3, 32
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


@bench.reference(tolerance=bf16)
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
# A store and a read of x, 0.7 us each, and a product of 0.4, beside 2 us of weights, which overlap but for a quarter.
cuda.reach(of="RBW", at_least=0.75, implementation="bulk")
bench.sass("gemv<true>", has=("PREEXIT", "ACQBULK", "LDG.64"), arch="sm_90")
bench.sass("flagged_layers<true>", has=("UBLKCP", "LDS.64"), arch="sm_90")


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


class OneKernel:
    """All layers by blocks that are on the chip together."""

    code: str
    staged = False

    def prepare(self, x, weights):
        layers, width = len(weights), len(x)
        if width % 4 or width > LONGEST:
            raise SkipError(f"takes a multiple of 4 columns, at most {LONGEST}; got {width}")
        kernel, blocks, block = device_code.kernel(self.code), -(-width // ROWS), THREADS + WARP
        shared = STAGES * 2 * ROWS * width if self.staged else 0
        if (held := grid_that_fills(kernel, block, shared)) < blocks:
            raise SkipError(f"needs {blocks} blocks on the chip at once; this GPU holds {held}")
        self.out, self.between = torch.empty_like(x), self.made(x)
        given = (self.out, x, weights.view(torch.int16), *self.between, layers, width)
        self.bound = kernel.bound(given, blocks, block, shared)

    def made(self, x):
        """What blocks exchange; the last of it is zero at the start."""
        return (torch.zeros(2, len(x), dtype=torch.int64, device=x.device),)

    def run(self):
        self.between[-1].zero_()
        function, *shape, parameters = self.bound.numbers
        stream = torch.cuda.current_stream().cuda_stream
        done(cuda_driver().cuLaunchCooperativeKernel(function, *shape, stream, parameters))
        return self.out


@cuda.variant(
    requires="sm_80",
    adds=("one kernel", "grid barrier"),
    why="a layer is a product and a barrier of all blocks, which meanwhile have the next layer's weights under way",
    predict="1.4 to 2.2x: 2 us of weights or a barrier, whichever is longer, then 1.1 us for x, in place of 5 to 8 us",
)
class Persistent(OneKernel):
    code = "all_layers"

    def made(self, x):
        return x.new_empty(2, len(x)), torch.zeros(1, dtype=torch.int32, device=x.device)


@cuda.variant(
    requires="sm_80",
    builds_on="persistent",
    adds="flags in the data",
    why="a value of x and the number of its layer are one word: who waits for it has it, and no counter is needed",
    predict="1.1 to 1.7x: a store and a read of 0.7 us each in place of a store, a count, a look at it and a read",
)
class Flagged(OneKernel):
    code = "flagged_layers<false>"


@cuda.variant(
    requires="sm_90",
    builds_on="flagged",
    adds="bulk copies",
    why="weights come to shared memory up to three layers ahead, so that memory has work while x is waited for",
    predict="1.1 to 1.8x: 2 us of weights beside all of a layer, not beside the wait for x alone",
)
class Bulk(OneKernel):
    code, staged = "flagged_layers<true>", True
