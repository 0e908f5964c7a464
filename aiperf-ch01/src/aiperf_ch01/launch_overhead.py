"""Launch overhead: a chain of short kernels costs its launches, not its work.

Question    How long does a chain of kernels take that have nearly nothing to do?
Numbers     x = |x - c| with 32 constants c on 2^14 float32 values, which any cache holds: 64 torch operations, of which
            each takes less than its launch. The floor is one empty kernel that the host waits for.
Prediction  A graph has 64 nodes of about a microsecond in place of 64 launches of 5 to 10; one fused kernel has one.
Limits      Arrays that take longer to read than a launch costs: the graph then saves nothing, and fusion only traffic.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.graphs import graphed
from aiperf_core.kernels import host_source, triton_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="latency", clock="wall", cache="warm", subject="host")
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
on_triton = bench.on("cuda", requires=("sm_80", "package:triton"))
host_code = host_source("launch_overhead.c")

BLOCK = 256
kernels = triton_source("launch_overhead_triton.py")


@bench.workload(
    floor={"n": 1},
    smoke={"n": 1021, "folds": 5},
    cpu={"n": 1 << 14, "folds": 32},
    cuda={"n": 1 << 14, "folds": 32},
)
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, folds):
    for number in range(folds):
        x = (x - offset(number)).abs()
    return x


@bench.cost
def cost(n, folds):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=2 * folds * n, precision="fp32")


bench.awkward({"n": 1, "folds": 1}, {"n": 4099, "folds": 32})
cuda.reach(of="LAT", at_most=2.0)
# An empty node for each kernel, as long again for its read of the L2 and its write, and the host's wait of about 40
# nodes once: 2.6 of 64 nodes each; 5 % for the rest.
cuda.reach(of="GRAPH", at_most=2.8, launches=64, implementation="graph")


def offset(number):
    """The constant of a fold: 1, 1/2, 1/4, 1/8, 1/16 and again, all exact in any format."""
    return 0.5 ** (number % 5)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class Eager:
    def prepare(self, x, folds):
        self.out, self.offsets = torch.empty_like(x), [offset(number) for number in range(folds)]

    def run(self, x):
        first, *others = self.offsets
        torch.sub(x, first, out=self.out).abs_()
        for constant in others:
            self.out.sub_(constant).abs_()
        return self.out


cuda.variant(
    graphed("eager"),
    name="graph",
    adds="graph",
    why="the driver sends the whole chain to the GPU at once, without the host between kernels",
)

fused = launch(
    kernels,
    kernel="folds",
    out="x",
    grid=blocks(n=BLOCK),
    make={"FOLDS": lambda folds: folds, "BLOCK": BLOCK},
    options={"num_warps": 4},
)("fused_triton")
on_triton.variant(fused, adds="fusion", why="one launch, and between its operations the values stay in registers")


on_triton.variant(
    graphed("fused_triton"),
    name="fused_graph",
    builds_on="fused_triton",
    adds="graph",
    why="a replay costs the host less than Triton's launcher, which looks at every argument in Python",
)

cpu.variant(
    loop(host_code, kernel="folds", out="x")("fused_loop"),
    adds="fusion",
    why="one call instead of one for each operation; the values stay in registers meanwhile",
)


@cuda.yardstick(requires="package:triton", why="torch.compile, which finds the fusion by itself")
class Compiled:
    def prepare(self, x, folds):
        self.chain = torch.compile(reference, fullgraph=True)
        self.chain(x, folds)  # compiles

    def run(self, x, folds):
        return self.chain(x, folds)
