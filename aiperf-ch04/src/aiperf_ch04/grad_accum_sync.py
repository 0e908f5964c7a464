"""Gradient accumulation: synchronise once for each optimizer step, not for each micro-batch.

Question    What does it cost to send the gradients of every micro-batch?

Numbers     Each rank has four micro-batches of 1024 samples and a copy of six residual layers, Linear and GELU, 8192
            wide, in bfloat16. The result is the float32 sum over micro-batches and ranks, divided by the ranks. A layer
            takes 0.52 ms of products at 790 TFLOP/s, 0.04 of elementwise passes and 0.16 to add its gradient: 17 ms in
            all. Gradients are 0.8 GB, 2.1 ms at 380 GB/s and 3.2 at the 250 of a library's all-reduce.

Prediction  After every micro-batch 17 + 4 x 2.1 to 3.2 ms, once 17 + 2.1 to 3.2: 1.3 to 1.5x. During the last backward
            pass all but a layer's sum is hidden: 1.1x more.

Limits      A single micro-batch has no collective to save. Float32 sums take 1.6 GB, and adding to them 10 bytes a
            gradient where bfloat16 sums, which lose digits with each micro-batch, take 6.
"""

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.residual import Stack, forward, same_weights
from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost
from aiperf_core.distributed import wait_all

bench = Benchmark(goal="throughput", clock="wall")
both = bench.on(("cpu", "cuda"))


@bench.workload(
    smoke={"layers": 3, "width": 37, "rows": 11, "micro": 3, "world_size": 2},
    cpu={"layers": 12, "width": 64, "rows": 16, "micro": 16, "world_size": 2},
    cuda={"layers": 6, "width": 8192, "rows": 1024, "micro": 4, "world_size": 2},
)
def inputs(micro, width, rows, device, generator):
    # The second one is the loss's gradient by the model's output.
    x, upstream = torch.randn(2, micro, rows, width, device=device, generator=generator).bfloat16()
    return {"x": x, "upstream": upstream}


@bench.static
def model(layers, width, device):
    return {"weights": same_weights(layers, width, device)}


@bench.reference(tolerance=rounded_layers)
def reference(x, upstream, weights, world_size):
    totals: Any = None
    for rank in range(world_size):
        leaves = [weight.detach().clone().requires_grad_() for weight in weights[rank]]
        for part, wanted in zip(x[rank], upstream[rank] / world_size, strict=True):
            with torch.enable_grad():
                found: Any = torch.autograd.grad(forward(leaves, part), leaves, wanted)
            # The sum is float32 or wider, as every implementation's is.
            found = [one.to(torch.promote_types(one.dtype, torch.float32)) for one in found]
            totals = found if totals is None else [total + more for total, more in zip(totals, found, strict=True)]
    return [list(totals) for _ in range(world_size)]


@bench.cost
def cost(layers, width, rows, micro, world_size):
    parameters = layers * width**2
    return Cost(
        bytes_read=2 * (parameters + 2 * micro * rows * width),
        bytes_written=4 * parameters,
        # Forward, and for each layer the gradients of its weight and of its input, which the first one does not need.
        flops=(6 * layers - 2) * micro * rows * width**2,
        precision="bf16",
        # An all-reduce of sums: 2 (n - 1) / n of them (Patarasuk and Yuan, 2009), which the tolerance allows to be sent
        # in bfloat16.
        wire_bytes=2 * (world_size - 1) / world_size * 2 * parameters,
        tokens=micro * rows,
    )


bench.awkward(
    {"layers": 1, "width": 61, "rows": 1, "micro": 1},
    {"layers": 4, "width": 31, "rows": 13, "micro": 7, "world_size": 3},
)
# Float32 sums move 4 bytes a gradient and micro-batch more, 6.4 GB: 1.5 of 17 ms at the rate of a copy.
bench.reach(of="time:no_sync", at_most=1.1)


class Replica:
    """A rank's copy of the model, and the sums of its gradients."""

    def prepare(self, weights):
        self.parameters = [one.detach().requires_grad_() for one in weights]
        self.sums = [torch.empty_like(one, dtype=torch.float32) for one in weights]

    def backward(self, x, upstream):
        """The gradients of a micro-batch."""
        return torch.autograd.grad(forward(self.parameters, x), self.parameters, upstream)

    def accumulate(self, gradients, index):
        """Add the gradients of a micro-batch to the sums, which start with those of the first one."""
        (torch._foreach_add_ if index else torch._foreach_copy_)(self.sums, gradients)


@both.baseline(kind="naive")
class EveryMicroBatch(Replica):
    def run(self, x, upstream, world_size):
        for index, (part, wanted) in enumerate(zip(x, upstream / world_size, strict=True)):
            gradients = self.backward(part, wanted)
            wait_all([dist.all_reduce(one, async_op=True) for one in gradients])
            self.accumulate(gradients, index)
        return self.sums


@both.variant(
    adds="local accumulation",
    why="one all-reduce for all micro-batches, of sums that are rounded to bfloat16 once, before they are sent",
    predict="1.2 to 1.6x: a collective of 2.1 to 3.2 ms in place of four, beside 17 ms of computing",
)
class Once(Replica):
    def run(self, x, upstream, world_size):
        for index, (part, wanted) in enumerate(zip(x, upstream / world_size, strict=True)):
            self.accumulate(self.backward(part, wanted), index)
        rounded = [one.bfloat16() for one in self.sums]
        wait_all([dist.all_reduce(one, async_op=True) for one in rounded])
        torch._foreach_copy_(self.sums, rounded)
        return self.sums


@both.variant(
    builds_on="once",
    adds="backward overlap",
    why="the sums of the last layers are sent while the rest of the last backward pass runs",
    predict="1 to 1.2x: up to 5 / 6 of 2.1 to 3.2 ms of 20",
)
class LastOverlapped(Replica):
    def prepare(self, weights):
        super().prepare(weights)
        for parameter, total in zip(self.parameters, self.sums, strict=True):
            parameter.register_post_accumulate_grad_hook(self.sender(total))

    def sender(self, total):
        def send(parameter):
            whole = (total.add_ if self.others else total.copy_)(parameter.grad).bfloat16()
            parameter.grad = None
            self.sent.append((dist.all_reduce(whole, async_op=True), total, whole))

        return send

    def run(self, x, upstream, world_size):
        self.sent: list[Any] = []
        self.others = len(x) - 1  # micro-batches before the last one
        upstream = upstream / world_size
        for index in range(self.others):
            self.accumulate(self.backward(x[index], upstream[index]), index)
        forward(self.parameters, x[-1]).backward(upstream[-1])
        for work, total, whole in self.sent:
            work.wait()
            total.copy_(whole)
        return self.sums


@both.yardstick(why="DistributedDataParallel of torch, with no_sync for all micro-batches but one")
class NoSync:
    def prepare(self, weights):
        self.model = torch.nn.parallel.DistributedDataParallel(Stack(weights), init_sync=False)

    def run(self, x, upstream):
        for one in self.model.parameters():
            one.grad = None
        for index, (part, wanted) in enumerate(zip(x, upstream, strict=True)):
            with self.model.no_sync() if index < len(x) - 1 else contextlib.nullcontext():
                self.model(part).backward(wanted)
        gradients: list[Any] = [one.grad for one in self.model.parameters()]
        return [one.float() for one in gradients]
