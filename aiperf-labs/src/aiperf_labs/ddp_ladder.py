"""A ladder of data parallelism: what each option of DistributedDataParallel is worth beside all others.

Question    Which options of torch's DistributedDataParallel, as it comes with buckets of 25 MB, gain anything?
Numbers     `micro` micro-batches of `rows` samples a rank: eight layers of LayerNorm, Linear, GELU and Linear, 2048 to
            8192, by autocast. On two GPUs a pass is 6.6 TFLOP and 14 GB of casts, activations and gradients that are
            added: 8.4 ms at 790 TFLOP/s and 3.2 at 4.3 TB/s. Its float32 gradients are 1.07 GB: 2.8 ms at 380 GB/s, 4.3
            at the 250 of a library's all-reduce. On a CPU a pass is 28 MFLOP, and its gradients are 4.7 MB.
Prediction  `accumulated` sends once for four passes: at most (4 * 11.6 + 4 * 4.3) / (4 * 11.6 + 4.3) = 1.25x where
            nothing is hidden, 1x where the backward passes hide it all. The other options take less than 1 ms from 50.
Limits      One micro-batch: nothing is accumulated. `--set rows=1024` sends as many bytes beside a quarter of the
            products. A model that changes which parameters it uses has no static graph. `compressed` rounds each
            gradient to bfloat16, and so the sum of two.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction, lossy
from aiperf_core.switches import switch

bench = Benchmark(goal="throughput", clock="wall")
both = bench.on(("cpu", "cuda"))


def rounding(bits):
    """The tolerance of gradients."""
    if bits == 32:
        return fp32_reduction
    return Tolerance(2e-2, reason="products of up to 8 layers round their operands to bfloat16, forward and backward")


@bench.workload(
    smoke={"layers": 2, "width": 19, "hidden": 37, "rows": 5, "micro": 3, "bits": 32, "world_size": 2},
    cpu={"layers": 4, "width": 192, "hidden": 768, "rows": 4, "micro": 8, "bits": 32, "world_size": 2},
    cuda={"layers": 8, "width": 2048, "hidden": 8192, "rows": 4096, "micro": 4, "bits": 16, "world_size": 2},
    # What is left without anyone to send to.
    alone={"layers": 8, "width": 2048, "hidden": 8192, "rows": 4096, "micro": 4, "bits": 16, "world_size": 1},
)
def inputs(micro, rows, width, device, generator):
    # The second one is the loss's gradient by the model's output.
    x, upstream = torch.randn(2, micro, rows, width, device=device, generator=generator)
    return {"x": x, "upstream": upstream}


@bench.static
def model(layers, width, hidden, device):
    # The same on all ranks.
    generator = torch.Generator(device).manual_seed(0)

    def matrix(rows, columns, gain=1.0):
        return torch.randn(rows, columns, device=device, generator=generator).mul_(gain / columns**0.5)

    shapes = [
        (
            1 + 0.1 * torch.randn(width, device=device, generator=generator),
            torch.zeros(width, device=device),
            matrix(hidden, width),
            torch.zeros(hidden, device=device),
            matrix(width, hidden, layers**-0.5),
            torch.zeros(width, device=device),
        )
        for _ in range(layers)
    ]
    return {"weights": [one for layer in shapes for one in layer]}


def forward(weights, x):
    """The output of the model, of its weights in their order."""
    for scale, shift, up, up_bias, down, down_bias in zip(*[iter(weights)] * 6, strict=True):
        inner = nn.functional.layer_norm(x, scale.shape, scale, shift)
        inner = nn.functional.gelu(nn.functional.linear(inner, up, up_bias))
        x = x + nn.functional.linear(inner, down, down_bias)
    return x


@bench.reference(tolerance=rounding)
def reference(x, upstream, weights, world_size):
    totals: Any = None
    for rank in range(world_size):
        leaves = [weight.detach().clone().requires_grad_() for weight in weights[rank]]
        for part, wanted in zip(x[rank], upstream[rank] / world_size, strict=True):
            with torch.enable_grad():
                found = torch.autograd.grad(forward(leaves, part), leaves, wanted)
            totals = found if totals is None else [total + more for total, more in zip(totals, found, strict=True)]
    return [list(totals) for _ in range(world_size)]


@bench.cost
def cost(layers, width, hidden, rows, micro, bits, world_size):
    matrices = layers * 2 * width * hidden
    parameters = matrices + layers * (3 * width + hidden)
    return Cost(
        bytes_read=4 * (parameters + 2 * micro * rows * width),
        bytes_written=4 * parameters,
        # Forward, and the gradients by weights and by inputs, of which the first product needs that of its norm.
        flops=6 * micro * rows * matrices,
        precision="bf16" if bits == 16 else "fp32",
        # An all-reduce: 2 (n - 1) / n of the gradients (Patarasuk and Yuan, 2009), in bfloat16 where the tolerance
        # allows it.
        wire_bytes=2 * (world_size - 1) / world_size * bits // 8 * parameters,
        tokens=micro * rows,
    )


# One sample, layer and micro-batch, of three ranks. Of fewer numbers, the ranks' sums may nearly cancel, and no
# rounding to bfloat16 keeps a budget then.
bench.awkward({"layers": 1, "rows": 1, "micro": 1, "width": 67, "hidden": 41, "world_size": 3})
# Products are 8.4 of the 11.6 ms of a pass, 0.72; a sixth of the time is for the gradients that are sent last.
bench.reach(of="MM:bf16", at_least=0.60, implementation="accumulated")
# Sending 4.7 MB takes 3.1 ms at 1.5 GB/s between processes, a pass of 28 MFLOP 1.4 ms at 20 GFLOP/s. Even if passes
# hide all they can of eight sends, these take 8 * 3.1 ms; with one it is 8 * 1.4 + 3.1: 1.7x, less what Python takes.
bench.reach(of="speedup", at_least=1.3, implementation="accumulated", device="cpu")


class Model(nn.Module):
    """The model as a module."""

    def __init__(self, weights, bits):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(one.detach().clone()) for one in weights)
        self.bits = bits

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bits == 16):
            return forward(self.weights, x)


def as_bf16(_, bucket):
    """Send a bucket as bfloat16. torch's own hook for that refuses gloo."""
    narrow = bucket.buffer().bfloat16().div_(dist.get_world_size())
    sent = dist.all_reduce(narrow, async_op=True).get_future()
    return sent.then(lambda found: bucket.buffer().copy_(found.value()[0]))


# Each gradient is rounded to bfloat16 once more, and so is the sum of two; with bits=16 on top of what products round.
TRAVELS_AS_BF16 = lossy("rel_l2", at_most=2.2e-2)


@dataclass(frozen=True)
class Flags:
    accumulation: bool = switch(
        "accumulated",
        adds="local accumulation",
        why="one all-reduce for all micro-batches, of as many bytes as for one",
        less="the accumulation: every pass sends",
    )
    views: bool = switch(
        "bucket_views",
        adds="bucket views",
        why="a gradient lies where it is sent from, so that no bucket is filled and emptied by copies",
        teaches="one pass of four fills buckets: to set the gradients to zero first moves nearly as many bytes",
        less="the views: buckets are filled and emptied",
    )
    static: bool = switch(
        "static_graph",
        adds="static graph",
        why="no pass searches for parameters without a gradient, or asks whether the order has changed",
        teaches="the search is the host's, which is ahead of the device: it counts where the host is the bound",
        less="the static graph",
    )
    compressed: bool = switch(
        adds="bfloat16 buckets",
        why="half the bytes on the wire, for two casts of each bucket",
        teaches="what is sent once, and beside the last backward pass, is mostly hidden: half of it gains nothing",
        lossy=TRAVELS_AS_BF16,
    )


@both.switches(Flags, leave_one_out=True)
@both.baseline(kind="reasonable")
class PlainDdp:
    flags = Flags()

    def prepare(self, x, weights, bits):
        self.model = nn.parallel.DistributedDataParallel(
            Model(weights, bits),
            init_sync=False,
            gradient_as_bucket_view=self.flags.views,
            static_graph=self.flags.static,
        )
        if self.flags.compressed:
            self.model.register_comm_hook(None, as_bf16)
        # Buckets are made anew after the first pass, and a static graph is learned in it.
        for _ in range(2):
            self.pass_through(x[0], torch.zeros_like(x[0]))
        self.parameters: Any = list(self.model.parameters())

    def pass_through(self, x, upstream):
        self.model(x).backward(upstream)

    def run(self, x, upstream):
        if self.flags.views:
            torch._foreach_zero_([one.grad for one in self.parameters])  # they stay where they are
        else:
            for one in self.parameters:
                one.grad = None
        last = len(x) - 1
        for number, (part, wanted) in enumerate(zip(x, upstream, strict=True)):
            with self.model.no_sync() if self.flags.accumulation and number < last else contextlib.nullcontext():
                self.pass_through(part, wanted)
        return [one.grad for one in self.parameters]
