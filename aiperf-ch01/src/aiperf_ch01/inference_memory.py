"""Inference memory: a forward pass under autograd keeps every activation for a backward pass that never comes.

Question    How much memory does a forward pass need, and how much does autograd keep beside it?
Numbers     24 blocks x = silu(x W) of 4096 x 4096 in bfloat16: a buffer is 34 MB. Under autograd the product and the
            activation of every block live as long as the output. The output of one call lives until that of the next
            replaces it, as in a loop of a server: the baseline holds 2 x 2 x 24 buffers, in a single call half of them.
Prediction  Without recording three buffers live at a time; two with an activation in place; one and a half with a
            quarter of the rows at a time. Times are the same: the kernels are.
Limits      The figure is the peak, not the time: chunks too small for the machine make it slower. Training needs the
            activations, or computes them again.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction

bench = Benchmark(goal="memory", clock="wall")
both = bench.on(("cpu", "cuda"))

CHUNKS = 4
# By the bytes of an element; many processors have no arithmetic in bfloat16.
DTYPES = {2: torch.bfloat16, 4: torch.float32}
# The product and the activation are rounded in every block, each by 2^-9 at most, about 0.0017 in the root mean square;
# independent errors of 2 x 24 roundings add up to 0.0017 sqrt(48).
rounded_in_every_block = Tolerance(2e-2, reason="two roundings to bfloat16 in each of up to 24 blocks in a row")


@bench.workload(
    smoke={"blocks": 3, "width": 67, "batch": 37, "element_bytes": 2},
    cpu={"blocks": 8, "width": 512, "batch": 2048, "element_bytes": 4},
    cuda={"blocks": 24, "width": 4096, "batch": 4096, "element_bytes": 2},
)
def inputs(width, batch, element_bytes, device, generator):
    return {"x": torch.randn(batch, width, device=device, generator=generator).to(DTYPES[element_bytes])}


@bench.static
def parameters(blocks, width, element_bytes, device, generator):
    # The mean square of silu(z) is 0.36 for a normal z: with this scale activations neither grow nor fade.
    scale = 1 / math.sqrt(0.36 * width)
    drawn = (torch.randn(width, width, device=device, generator=generator) for _ in range(blocks))
    return {"weights": [(scale * weight).to(DTYPES[element_bytes]) for weight in drawn]}


def tolerance(element_bytes):
    return rounded_in_every_block if element_bytes == 2 else fp32_reduction


@bench.reference(tolerance=tolerance)
def reference(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight)
    return x


@bench.cost
def cost(blocks, width, batch, element_bytes):
    return Cost(
        bytes_read=element_bytes * (blocks * width * width + batch * width),
        bytes_written=element_bytes * batch * width,
        flops=2 * blocks * batch * width * width,
        precision="bf16" if element_bytes == 2 else "fp32",
        tokens=batch,
    )


bench.awkward({"blocks": 1, "width": 61, "batch": 1}, {"blocks": 5, "width": 31, "batch": 101, "element_bytes": 4})
# Three buffers and 5 %, where the baseline has two for each of 24 blocks, in this call and in the call before, whose
# output lives until the next is there. Weights and input are the harness's, and not in the peak.
bench.reach(of="memory:grad_enabled", at_most=1.05 * 3 / (2 * 2 * 24))


@both.baseline(kind="naive")
class GradEnabled:
    def prepare(self, weights):
        self.parameters = [weight.detach().requires_grad_() for weight in weights]

    def run(self, x):
        for parameter in self.parameters:
            x = torch.nn.functional.silu(x @ parameter)
        return x


@both.variant(
    adds="no recording",
    why="torch records nothing for a backward pass, so an activation is freed once the next block has read it",
)
@torch.inference_mode()
def inference_mode(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight)
    return x


@both.variant(
    builds_on="inference_mode",
    adds="in-place activation",
    why="the activation takes the place of the product, and two buffers are alive instead of three",
)
@torch.inference_mode()
def in_place(x, weights):
    for weight in weights:
        x = torch.nn.functional.silu(x @ weight, inplace=True)
    return x


@both.variant(
    builds_on="in_place",
    adds="chunks",
    why="between two blocks is only a chunk of the rows; the output alone has full size",
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
