"""Prefetch: weights that live with the host come one layer ahead, while the layer before is in use.

Question    A model does not fit the GPU, and its layers come over PCIe in each call. When does that cost no time?
Numbers     16 layers of two bfloat16 matrices of 5120 x 5120, 105 MB, in pinned memory: 1.68 GB, 30 ms at 55 GB/s. 2^14
            tokens are 1.7 TFLOP a layer, 2.5 ms at 700 TFLOP/s, beside 1.9 ms of PCIe: the floor is the longer of both.
Prediction  One after the other: 1.9 + 2.5 ms a layer. With two buffers a layer comes while the one before is in use:
            2.5 ms, and the first copy: 1.6 to 1.75x. A third buffer would gain where layers take different times.
Limits      Below some 2^13.6 tokens PCIe is the floor (`--size few_tokens`: 2^12, at most 1.35x).
            Weights that fit the GPU need not come at all. Two buffers are the memory of two layers, in place of one.
            Pageable memory: the driver copies it itself, and nothing overlaps.
"""

import math
from dataclasses import dataclass

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.switches import switch

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cuda = bench.on("cuda")

SHARE = 0.25  # of a layer's result in the stream of states


def rounding(bits):
    """The tolerance of the states."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="the states are rounded to bfloat16 in each of 16 layers, as are products in them")


@bench.workload(
    floor={"width": 8, "tokens": 1},
    smoke={"layers": 3, "width": 40, "tokens": 7, "dtype": "fp32"},
    cuda={"layers": 16, "width": 5120, "tokens": 1 << 14, "dtype": "bf16"},
    few_tokens={"layers": 16, "width": 5120, "tokens": 1 << 12, "dtype": "bf16"},
)
def inputs(tokens, width, dtype, device, generator):
    return {"x": torch.randn(tokens, width, device=device, generator=generator).to(dtype)}


@bench.static
def weights_of(layers, width, dtype, device, generator):
    # Half of the values are lost to relu: the first factor keeps the size of the rest.
    normal = torch.randn(layers, 2, width, width, device=device, generator=generator) * math.sqrt(2 / width)
    return {"weights": normal.to(dtype)}


@bench.reference(tolerance=rounding)
def reference(x, weights):
    for up, down in weights:
        x = x + SHARE * (torch.relu(x @ up) @ down)
    return x


@bench.cost
def cost(layers, width, tokens, bits):
    weights, states, size = 2 * layers * width * width, tokens * width, bits // 8
    return Cost(
        bytes_read=size * (weights + states),
        bytes_written=size * states,
        to_device_bytes=size * weights,
        flops=2 * tokens * weights,
        precision="bf16" if bits == 16 else "fp32",
        tokens=tokens,
    )


# One layer, as many as there are buffers and one more; one token of one value.
bench.awkward(
    {"layers": 1, "width": 1, "tokens": 1},
    {"layers": 2, "width": 17, "tokens": 3},
    {"layers": 4, "width": 31, "tokens": 5},
)
# The products and the first copy: 1.9 ms beside 40 ms. PCIe and the last products: 0.6 ms beside 30 ms.
cuda.reach(of="time:resident", at_most=1 / 0.93, implementation="two_buffers")
cuda.reach(of="SOL", at_least=0.93, implementation="two_buffers", size="few_tokens")


@dataclass(frozen=True)
class Flags:
    ahead: bool = switch(
        "two_buffers",
        adds="copy stream and second buffer",
        why="the next layer comes on a stream of its own to a buffer that the products do not read",
        predict="1.6 to 1.8x: 1.9 + 2.5 ms a layer against 2.5 ms, and 1.9 ms for the first",
    )
    third: bool = switch(
        "three_buffers",
        adds="third buffer",
        why="a copy may begin while two layers wait",
        teaches="layers of one size: the copy that is ahead by one is there in time, and one more waits longer",
    )


class Layers:
    """The products of layers whose weights are on the GPU."""

    def prepare(self, x, weights):
        self.state, self.hidden = torch.empty_like(x), torch.empty_like(x)

    def multiply(self, up, down):
        """A layer, from the states to the states."""
        torch.mm(self.state, up, out=self.hidden).relu_()
        self.state.addmm_(self.hidden, down, alpha=SHARE)


@cuda.switches(Flags)
@cuda.baseline(kind="reasonable", name="serial")
class Streamed(Layers):
    """Layers in pinned memory, and buffers on the GPU, whose uses events order."""

    flags = Flags()

    def prepare(self, x, weights):
        super().prepare(x, weights)
        self.buffers = 1 + self.flags.ahead + self.flags.third
        self.host = torch.empty(weights.shape, dtype=weights.dtype, pin_memory=True).copy_(weights)
        self.places = weights.new_empty(self.buffers, *weights.shape[1:])
        self.own = torch.cuda.Stream()
        self.came, self.read = ([torch.cuda.Event() for _ in range(self.buffers)] for _ in range(2))

    def run(self, x):
        caller = torch.cuda.current_stream()
        copies = self.own if self.flags.ahead else caller
        copies.wait_stream(caller)
        self.state.copy_(x)
        for number, layer in enumerate(self.host):
            place = number % self.buffers
            with torch.cuda.stream(copies):
                if number >= self.buffers:
                    copies.wait_event(self.read[place])
                self.places[place].copy_(layer, non_blocking=True)
                self.came[place].record(copies)
            caller.wait_event(self.came[place])
            self.multiply(*self.places[place])
            self.read[place].record(caller)
        return self.state


@cuda.yardstick(why="the products alone, of weights that the GPU keeps")
class Resident(Layers):
    def run(self, x, weights):
        self.state.copy_(x)
        for up, down in weights:
            self.multiply(up, down)
        return self.state
