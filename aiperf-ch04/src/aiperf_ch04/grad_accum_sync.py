"""Gradient accumulation: synchronise once for each optimizer step, not for each micro-batch.

Workload   Each rank has `micro` micro-batches of `rows` samples and a copy of a model, `layers` residual layers of
           Linear and GELU of `width`, in bfloat16. The result on all ranks, in float32: the gradients of all
           micro-batches summed over all ranks, divided by the number of ranks.
Baseline   The gradients of every micro-batch are all-reduced, and then added to the sum.
Variants   `once`: each rank adds its gradients in float32, and the sums are all-reduced once.  `once_bf16`: the sums
           are rounded to bfloat16 before they are sent, as the baseline's gradients are.  `last_overlapped`: the sums
           of the last layers are sent during the backward pass of the last micro-batch.
Yardstick  `no_sync`: torch's DistributedDataParallel, which adds in bfloat16.
Breaks     A single micro-batch: there is no collective to save, and the float32 sums cost memory.
"""

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.residual import Stack, forward, same_weights
from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost

bench = Benchmark(goal="throughput", clock="wall")
both = bench.on(("cpu", "cuda"))


@bench.workload(
    smoke={"layers": 3, "width": 37, "rows": 11, "micro": 3, "world_size": 2},
    cpu={"layers": 12, "width": 64, "rows": 16, "micro": 16, "world_size": 2},
    cuda={"layers": 24, "width": 4096, "rows": 1024, "micro": 8, "world_size": 2},
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
bench.reach(of="time:no_sync", at_most=1.0)


class Replica:
    """A rank's copy of the model, and the sums of its gradients."""

    def prepare(self, weights):
        self.parameters = [one.detach().requires_grad_() for one in weights]
        self.sums = [torch.empty_like(one, dtype=torch.float32) for one in weights]

    def clear(self):
        torch._foreach_zero_(self.sums)

    def backward(self, x, upstream):
        """The gradients of a micro-batch."""
        return torch.autograd.grad(forward(self.parameters, x), self.parameters, upstream)


@both.baseline(kind="naive")
class EveryMicroBatch(Replica):
    def run(self, x, upstream, world_size):
        self.clear()
        for part, wanted in zip(x, upstream / world_size, strict=True):
            gradients = self.backward(part, wanted)
            for work in [dist.all_reduce(one, async_op=True) for one in gradients]:
                work.wait()
            torch._foreach_add_(self.sums, gradients)
        return self.sums


@both.variant(
    adds="local accumulation",
    why="one all-reduce for all micro-batches, of twice the bytes, since the sums are float32",
)
class Once(Replica):
    def run(self, x, upstream, world_size):
        self.clear()
        for part, wanted in zip(x, upstream / world_size, strict=True):
            torch._foreach_add_(self.sums, self.backward(part, wanted))
        for work in [dist.all_reduce(one, async_op=True) for one in self.sums]:
            work.wait()
        return self.sums


@both.variant(builds_on="once", adds="bfloat16", why="half the bytes; the sums are rounded once, before they are sent")
class OnceBf16(Replica):
    def run(self, x, upstream, world_size):
        self.clear()
        for part, wanted in zip(x, upstream / world_size, strict=True):
            torch._foreach_add_(self.sums, self.backward(part, wanted))
        rounded = [one.bfloat16() for one in self.sums]
        for work in [dist.all_reduce(one, async_op=True) for one in rounded]:
            work.wait()
        torch._foreach_copy_(self.sums, rounded)
        return self.sums


@both.variant(
    builds_on="once_bf16",
    adds="backward overlap",
    why="the sums of the last layers are sent while the rest of the last backward pass runs",
)
class LastOverlapped(Replica):
    def prepare(self, weights):
        super().prepare(weights)
        for parameter, total in zip(self.parameters, self.sums, strict=True):
            parameter.register_post_accumulate_grad_hook(self.sender(total))

    def sender(self, total):
        def send(parameter):
            whole = total.add_(parameter.grad).bfloat16()
            parameter.grad = None
            self.sent.append((dist.all_reduce(whole, async_op=True), total, whole))

        return send

    def run(self, x, upstream, world_size):
        self.clear()
        self.sent: list[Any] = []
        upstream = upstream / world_size
        for part, wanted in zip(x[:-1], upstream[:-1], strict=True):
            torch._foreach_add_(self.sums, self.backward(part, wanted))
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
