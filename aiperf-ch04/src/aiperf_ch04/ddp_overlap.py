"""Overlapped gradients: send those of the last layers while the backward pass of the first still runs.

Workload   Each rank has `rows` samples of its own and a copy of a model, `layers` residual layers of Linear and GELU of `width`,
           in bfloat16. Forward, backward; all ranks shall hold the mean of their gradients.
Baseline   An all-reduce for each parameter, after the backward pass.
Variants   `flat_buckets`: gradients are copied into buckets of `bucket_bytes`, which are reduced after the backward pass.
           `overlapped`: a bucket is reduced as soon as its last gradient is there.
Yardstick  `ddp`: torch's DistributedDataParallel with buckets of the same size.
Breaks     Few or small layers: the last bucket has nothing left to hide behind. On GPUs the collective takes
           multiprocessors and memory bandwidth from the products beside it.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.functional import gelu

from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost

bench = Benchmark(goal="throughput", clock="wall")


@bench.workload(
    smoke={"layers": 3, "width": 37, "rows": 11, "bucket_bytes": 3000, "world_size": 2},
    cpu={"layers": 6, "width": 256, "rows": 64, "bucket_bytes": 1 << 18, "world_size": 2},
    cuda={"layers": 24, "width": 4096, "rows": 2048, "bucket_bytes": 25 << 20, "world_size": 2},
)
def inputs(width, rows, device, generator):
    # The second one is the loss's gradient by the model's output.
    x, upstream = torch.randn(2, rows, width, device=device, generator=generator).bfloat16()
    return {"x": x, "upstream": upstream}


@bench.static
def model(layers, width, device):
    same = torch.Generator(device).manual_seed(0)  # the same on all ranks
    drawn = torch.randn(layers, width, width, device=device, generator=same) * (2 / (width * layers)) ** 0.5
    return {"weights": list(drawn.bfloat16())}


@bench.reference(tolerance=rounded_layers)
def reference(x, upstream, weights, world_size):
    totals: Any = None
    for rank in range(world_size):
        leaves = [one.detach().clone().requires_grad_() for one in weights[rank]]
        with torch.enable_grad():
            found = torch.autograd.grad(forward(leaves, x[rank]), leaves, upstream[rank] / world_size)
        totals = found if totals is None else [one + other for one, other in zip(totals, found, strict=True)]
    return [list(totals) for _ in range(world_size)]


@bench.cost
def cost(layers, width, rows, world_size):
    parameters = layers * width**2
    return Cost(
        bytes_read=2 * (parameters + 2 * rows * width),
        bytes_written=2 * parameters,
        # Forward, and for each layer the gradients of its weight and of its input, which the first one does not need.
        flops=(6 * layers - 2) * rows * width**2,
        precision="bf16",
        wire_bytes=2 * (world_size - 1) / world_size * 2 * parameters,
        tokens=rows,
    )


def forward(weights, x):
    for weight in weights:
        x = x + gelu(x @ weight)
    return x


class Replica:
    """A rank's copy of the model."""

    def prepare(self, weights, bucket_bytes):
        self.parameters = [one.detach().requires_grad_() for one in weights]
        self.buckets = in_buckets(self.parameters, bucket_bytes)

    def backward(self, x, upstream, world_size):
        for one in self.parameters:
            one.grad = None
        forward(self.parameters, x).backward(upstream / world_size)


def in_buckets(parameters, bucket_bytes):
    """Buffers for gradients in the order in which a backward pass makes them, and where each parameter's lies."""
    groups: list[list[Any]] = [[]]
    for one in reversed(parameters):
        if groups[-1] and (len(groups[-1]) + 1) * one.nbytes > bucket_bytes:
            groups.append([])
        groups[-1].append(one)
    buckets = []
    for group in groups:
        buffer = torch.empty(sum(one.numel() for one in group), dtype=group[0].dtype, device=group[0].device)
        buckets.append((buffer, group, [part.view_as(group[0]) for part in buffer.split(group[0].numel())]))
    return buckets


def in_model_order(buckets):
    return [view for _, _, views in buckets for view in views][::-1]


@bench.baseline(device=("cpu", "cuda"), kind="naive")
class EachAfterBackward(Replica):
    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        for one in self.parameters:
            dist.all_reduce(one.grad)
        return [one.grad for one in self.parameters]


@bench.variant(
    device=("cpu", "cuda"), why="the ranks find each other once a bucket instead of once a parameter, for a copy of it"
)
class FlatBuckets(Replica):
    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        for buffer, group, views in self.buckets:
            torch._foreach_copy_(views, [one.grad for one in group])
            dist.all_reduce(buffer)
        return in_model_order(self.buckets)


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="flat_buckets",
    why="all but the last bucket are on their way while gradients of earlier layers are computed",
)
class Overlapped(Replica):
    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        for bucket in self.buckets:
            for parameter, view in zip(bucket[1], bucket[2], strict=True):
                parameter.register_post_accumulate_grad_hook(self.sender(bucket, view))

    def sender(self, bucket, view):
        buffer, group, _ = bucket

        def send(parameter):
            view.copy_(parameter.grad)
            parameter.grad = None
            if parameter is group[-1]:  # gradients come in the order of the buckets
                self.works.append(dist.all_reduce(buffer, async_op=True))

        return send

    def run(self, x, upstream, world_size):
        self.works: list[Any] = []
        self.backward(x, upstream, world_size)
        for work in self.works:
            work.wait()
        return in_model_order(self.buckets)


class Stack(torch.nn.Module):
    """The model as a module."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(one.detach()) for one in weights)

    def forward(self, x):
        return forward(self.weights, x)


@bench.yardstick(device=("cpu", "cuda"), why="DistributedDataParallel of torch")
class Ddp:
    def prepare(self, weights, bucket_bytes):
        bucket_mb = bucket_bytes / 2**20
        self.model = torch.nn.parallel.DistributedDataParallel(Stack(weights), bucket_cap_mb=bucket_mb, init_sync=False)

    def run(self, x, upstream):
        for one in self.model.parameters():
            one.grad = None
        self.model(x).backward(upstream)  # it takes the mean itself
        return [one.grad for one in self.model.parameters()]
