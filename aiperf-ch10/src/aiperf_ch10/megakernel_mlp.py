"""A whole MLP in one launch: memory has something to do while the blocks wait for each other.

Question    One token's SwiGLU, down (silu(gate x) * (up x)), is a chain of products that read each weight once. What do
            the ends of its kernels cost, and can a barrier within one kernel do without that gap?
Numbers     Width 4096, hidden 14336, bfloat16: 352 MB of weights, 80 us at 4.4 TB/s. At the end of a kernel memory runs
            empty, and behind the next one's start of 1.1 us it takes a latency until it is full again: 2 to 3 us for
            each of three ends. 4224 warps have 4 KB each under way: 17 MB, 4 us of memory.
Prediction  Two ends less for gate, up and silu in a kernel, 1.04 to 1.08x. A barrier in place of the last gains
            nothing, as memory is empty meanwhile; with the next weights in registers before it, another 2 us of 85.
Limits      The larger the weights, the smaller the gap: at `--size narrow`, 69 MB and 16 us, it is five times as
            large a part. With several tokens a product of tensor cores reads weights once for all. One kernel needs
            a chip to itself, and each change of the model's layer is a change of the kernel.
"""

import math

import torch
from attrs import evolve
from torch.nn import functional

from aiperf_ch10.cooperative import cooperative
from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, grid_that_fills
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="device")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("megakernel_mlp.cu")

THREADS = 512
PIECE = 8  # elements of a load


@bench.workload(
    smoke={"width": 136, "hidden": 328},
    cuda={"width": 4096, "hidden": 14336},
    narrow={"width": 2048, "hidden": 5632},
)
def inputs(width, device, generator):
    return {"x": torch.randn(width, device=device, generator=generator).bfloat16()}


@bench.static
def weights(width, hidden, device, generator):
    def drawn(rows, columns):
        return (torch.randn(rows, columns, device=device, generator=generator) / math.sqrt(columns)).bfloat16()

    return {"gate": drawn(hidden, width), "up": drawn(hidden, width), "down": drawn(width, hidden)}


@bench.reference(tolerance=bf16)
def reference(x, gate, up, down):
    return down @ (functional.silu(gate @ x) * (up @ x))


@bench.cost
def cost(width, hidden):
    count = 3 * width * hidden
    return Cost(bytes_read=2 * (count + width), bytes_written=2 * width, flops=2 * count)


def launches(count):
    """The cost with so many kernels, one after another."""
    return lambda width, hidden: evolve(cost(width, hidden), launches=count)


# A piece; lanes without a piece; more pieces than are under way; more rows than a block has warps.
bench.awkward(*({"width": width, "hidden": hidden} for width, hidden in ((8, 8), (264, 40), (2056, 24), (40, 4168))))
# 4 us for the start and the end of 85; a tenth for rows that end at different times, and for what a sum reads faster.
cuda.reach(
    of="RBW",
    at_least=0.85,
    implementation="weights_ahead",
    cause="a start, an end and a barrier do not depend on the weights: with four times as many it is reached",
    shown_by="size:width=8192",
)
bench.sass("product", has=("LDG.EF.128",))
bench.sass("gate_and_up", has=("LDG.EF.128",))
bench.sass("weights_ahead", has=("LDG.EF.128", "MEMBAR"))


def whole_pieces(width, hidden):
    """Refuse rows that do not start at multiples of 16 bytes."""
    if width % PIECE or hidden % PIECE:
        raise SkipError(f"takes multiples of {PIECE}, for rows of 16-byte pieces; got {width}, {hidden}")


class Chain:
    """Launches that C makes, of as many blocks as the chip holds."""

    def prepare(self, x, gate, up, down, width, hidden):
        whole_pieces(width, hidden)
        self.calls, self.out, h = Recording(), torch.empty_like(x), x.new_empty(hidden)
        self.record_gated(h, x, gate, up, hidden, width)
        self.record("product", self.out, down, h, width, hidden)

    def record_gated(self, h, x, gate, up, hidden, width):
        of_gate, of_up = torch.empty_like(h), torch.empty_like(h)
        self.record("product", of_gate, gate, x, hidden, width)
        self.record("product", of_up, up, x, hidden, width)
        self.record("gated", h, of_gate, of_up, hidden, grid=-(-hidden // THREADS))

    def record(self, name, *arguments, grid=None):
        kernel = device_code.kernel(name)
        self.calls.launch(kernel, *arguments, grid=grid or grid_that_fills(kernel, THREADS), block=THREADS)

    def run(self):
        self.calls.play()
        return self.out


class Fused(Chain):
    def record_gated(self, h, x, gate, up, hidden, width):
        self.record("gate_and_up", h, gate, up, x, hidden, width)


class OneLaunch:
    kernel = "one_launch"

    def prepare(self, x, gate, up, down, width, hidden):
        whole_pieces(width, hidden)
        kernel, self.out = device_code.kernel(self.kernel), torch.empty_like(x)
        h, arrived = x.new_empty(hidden), torch.zeros(1, dtype=torch.int64, device=x.device)
        given = (self.out, h, x, gate, up, down, arrived, width, hidden)
        self.launch = cooperative(kernel, given, grid_that_fills(kernel, THREADS), THREADS)

    def run(self):
        self.launch()
        return self.out


class WeightsAhead(OneLaunch):
    kernel = "weights_ahead"


class Library:
    def prepare(self, x, down, hidden):
        self.h, self.out = (x.new_empty(rows) for rows in (hidden, len(x)))
        self.of_gate, self.of_up = torch.empty_like(self.h), torch.empty_like(self.h)

    def run(self, x, gate, up, down):
        torch.mv(gate, x, out=self.of_gate)
        torch.mv(up, x, out=self.of_up)
        torch.mul(functional.silu(self.of_gate, inplace=True), self.of_up, out=self.h)
        return torch.mv(down, self.h, out=self.out)


cuda.baseline(graphed(Chain), name="graph", kind="reasonable", cost=launches(4))
cuda.variant(
    graphed(Fused),
    name="fused_gate_up",
    cost=launches(2),
    adds="fused gate and up",
    why="a warp has a row of both matrices, and h alone is stored: two kernels less at whose end memory runs empty",
    predict="1.03 to 1.12x: two ends of 2 to 3 us of some 90 us",
)
cuda.variant(
    OneLaunch,
    name="one_launch",
    requires="sm_80",
    cost=launches(1),
    builds_on="fused_gate_up",
    adds="grid barrier",
    why="one launch: blocks that stay wait on the chip for all of h, and no kernel starts behind another",
    predict="0.96 to 1.03x: a barrier is as long as a node, and memory is empty behind both",
    teaches="one launch instead of two saves nothing: the gap is the wait for h, which a barrier has as well",
)
cuda.variant(
    WeightsAhead,
    name="weights_ahead",
    requires="sm_80",
    cost=launches(1),
    builds_on="one_launch",
    adds="loads before the barrier",
    why="a warp that is done with gate and up asks for 4 KB of down before it waits for h and the other blocks",
    predict="1.01 to 1.05x: memory delivers 17 MB of 352 while the blocks wait",
)
cuda.yardstick(graphed(Library), name="library", why="products of cuBLAS and operations of torch, in a graph")
