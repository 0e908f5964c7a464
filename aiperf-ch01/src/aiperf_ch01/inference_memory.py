"""Inference memory: a forward pass under autograd keeps every activation for a backward pass that never comes.

Workload   A stack of blocks x = silu(x W) in bfloat16, for inference. Weights are parameters, as a trained model has
           them.
Baseline   The forward pass with gradients enabled, as a model is called where nobody says otherwise: of every block the
           product and its activation stay alive until the output is let go.
Variants   `inference_mode`: nothing is recorded, and an activation is freed once the next block has read it.
           `in_place`: the activation overwrites the product.  `chunked`: so many rows at a time, through all blocks.
Breaks     What counts is the peak, not the time: chunks too small for the machine make it slower. Training needs the
           activations, or computes them again.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, Tolerance

bench = Benchmark(goal="memory", clock="wall")

CHUNKS = 4
# The product and the activation are rounded in every block, each by 2^-9 at most, about 0.0017 in the root mean square;
# independent errors of 2 x 24 roundings add up to 0.0017 sqrt(48).
rounded_in_every_block = Tolerance(2e-2, reason="two roundings to bfloat16 in each of up to 24 blocks in a row")


@bench.workload(
    smoke={"blocks": 3, "width": 67, "batch": 37},
    cpu={"blocks": 8, "width": 512, "batch": 2048},
    cuda={"blocks": 24, "width": 4096, "batch": 4096},
)
def inputs(width, batch, device, generator):
    return {"x": torch.randn(batch, width, device=device, generator=generator).bfloat16()}


@bench.static
def parameters(blocks, width, device, generator):
    # The mean square of silu(z) is 0.36 for a normal z: with this scale activations neither grow nor fade.
    scale = 1 / math.sqrt(0.36 * width)
    drawn = (torch.randn(width, width, device=device, generator=generator) for _ in range(blocks))
    return {"weights": [(scale * one).bfloat16() for one in drawn]}


@bench.reference(tolerance=rounded_in_every_block)
def reference(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight)
    return x


@bench.cost
def cost(blocks, width, batch):
    return Cost(
        bytes_read=2 * (blocks * width * width + batch * width),
        bytes_written=2 * batch * width,
        flops=2 * blocks * batch * width * width,
        precision="bf16",
        tokens=batch,
    )


@bench.baseline(device=("cpu", "cuda"), kind="naive")
class GradEnabled:
    def prepare(self, weights):
        self.parameters = [weight.detach().requires_grad_() for weight in weights]

    def run(self, x):
        for parameter in self.parameters:
            x = torch.nn.functional.silu(x @ parameter)
        return x


@bench.variant(
    device=("cpu", "cuda"),
    why="nothing is recorded for a backward pass, so what the next block has read goes back to the allocator",
)
@torch.inference_mode()
def inference_mode(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight)
    return x


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="inference_mode",
    why="the activation takes the place of the product, and two buffers are alive instead of three",
)
@torch.inference_mode()
def in_place(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight, inplace=True)
    return x


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="in_place",
    why="only a chunk of the rows is between two blocks; of full size is the output alone",
)
class Chunked:
    def prepare(self, x, weights):
        self.out = torch.empty_like(x)
        rows = -(-len(x) // CHUNKS)
        self.buffers = [torch.empty(rows, x.shape[1], device=x.device, dtype=x.dtype) for _ in range(2)]
        self.chunks = list(zip(x.split(rows), self.out.split(rows), strict=True))
        # The last product goes to the output itself, the others to two buffers by turns.
        self.inner, self.last = weights[:-1], weights[-1]

    @torch.inference_mode()
    def run(self):
        for rows, out in self.chunks:
            for number, weight in enumerate(self.inner):
                buffer = self.buffers[number % 2][: len(out)]
                rows = torch.nn.functional.silu(torch.mm(rows, weight, out=buffer), inplace=True)
            torch.nn.functional.silu(torch.mm(rows, self.last, out=out), inplace=True)
        return self.out
