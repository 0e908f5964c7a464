"""Overlapped gradients: send those of the last layers while the backward pass of the first still runs.

Question    How much of the all-reduce of gradients hides behind the backward pass that makes them?

Numbers     Each rank has its own 2048 samples and a copy of 12 residual layers, Linear and GELU, 6144 wide, in
            bfloat16. A layer's forward and backward pass is 0.46 TFLOP, 0.6 ms at 800 TFLOP/s; its gradient has 75 MB,
            0.2 ms at 380 GB/s. Samples alone set that proportion: 6 x 2048 operations for 2 bytes. Buckets of 128 MB
            hold a gradient each. Host: about 12 launches a layer, less than half of the GPU's time.

Prediction  No overlap: 7.0 ms of products, 0.8 of elementwise passes and 2.4 to 3.6 of all-reduce, by the library's
            rate. Hidden but for the last bucket, a twelfth: 8.0 to 8.1 ms, 1.25 to 1.4x. No form beats the longer of
            computing and sending; `--size compute_alone` and `--size comm_alone` measure each.

Limits      Fewer samples than about 800 a rank: sending is the longer part. Few layers: the last bucket is never
            hidden. A collective takes SMs and memory bandwidth from the products beside it, copy engines only the
            bandwidth. Buckets of several gradients cost a copy, which pays where an all-reduce is latency (`cpu`).
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.peer_sums import CopyEngineSums
from aiperf_ch04.residual import Stack, forward, same_weights
from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost
from aiperf_core.distributed import wait_all

bench = Benchmark(goal="throughput", clock="wall")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")

STEP: dict[str, float] = {"layers": 12, "width": 6144, "rows": 2048, "bucket_bytes": 128 << 20, "world_size": 2}


@bench.workload(
    smoke={"layers": 3, "width": 37, "rows": 11, "bucket_bytes": 6000, "world_size": 2},
    cpu={"layers": 32, "width": 64, "rows": 64, "bucket_bytes": 1 << 16, "world_size": 2},
    cuda=STEP,
    compute_alone={**STEP, "world_size": 1},
    comm_alone={**STEP, "rows": 1},
)
def inputs(width, rows, device, generator):
    # The second one is the loss's gradient by the model's output.
    x, upstream = torch.randn(2, rows, width, device=device, generator=generator).bfloat16()
    return {"x": x, "upstream": upstream}


@bench.static
def model(layers, width, device):
    return {"weights": same_weights(layers, width, device)}


@bench.reference(tolerance=rounded_layers)
def reference(x, upstream, weights, world_size):
    totals: Any = None
    for rank in range(world_size):
        leaves = [weight.detach().clone().requires_grad_() for weight in weights[rank]]
        with torch.enable_grad():
            found = torch.autograd.grad(forward(leaves, x[rank]), leaves, upstream[rank] / world_size)
        totals = found if totals is None else [total + more for total, more in zip(totals, found, strict=True)]
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
        # An all-reduce of gradients in bfloat16: 2 (n - 1) / n of them (Patarasuk and Yuan, 2009).
        wire_bytes=2 * (world_size - 1) / world_size * 2 * parameters,
        tokens=rows,
    )


bench.awkward(
    {"layers": 1, "width": 61, "rows": 1, "bucket_bytes": 1},
    {"layers": 5, "width": 31, "rows": 67, "bucket_bytes": 5000, "world_size": 3},
)
bench.reach(of="time:ddp", at_most=1.0)
# Beside 7.0 ms of products 0.8 of elementwise passes and 0.2 to 0.3 of the last bucket, and 10 % more time.
bench.reach(of="SOL", at_least=0.79)


class Replica:
    """A rank's copy of the model."""

    def prepare(self, weights, bucket_bytes):
        self.parameters = [one.detach().requires_grad_() for one in weights]
        self.buckets = in_buckets(self.parameters, bucket_bytes)

    def backward(self, x, upstream, world_size):
        for one in self.parameters:
            one.grad = None
        forward(self.parameters, x).backward(upstream / world_size)

    def gradients(self):
        """The gradients that lie in buckets, in the order of the model."""
        return [one for bucket in self.buckets for one in bucket.gradients()][::-1]


class Bucket:
    """Gradients that travel together, of parameters of one shape, in the order in which a backward pass makes them.

    One that travels alone does so where it was made; more are copied side by side.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self.buffer = self.views = None
        if len(parameters) > 1:
            self.buffer = parameters[0].new_empty(len(parameters), *parameters[0].shape)
            self.views = list(self.buffer)

    def pack(self):
        """Copy what is not there yet; returns what is to be sent."""
        if self.views is None:
            return self.parameters[0].grad
        torch._foreach_copy_(self.views, [one.grad for one in self.parameters])
        return self.buffer

    def gradients(self):
        return self.views or [self.parameters[0].grad]


def in_buckets(parameters, bucket_bytes):
    """The parameters in buckets of at most so many bytes, or of one, from the last to the first."""
    most = max(1, bucket_bytes // parameters[0].nbytes)
    last_first = parameters[::-1]
    return [Bucket(last_first[at : at + most]) for at in range(0, len(last_first), most)]


@both.baseline(kind="reasonable")
class AfterBackward(Replica):
    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        for bucket in self.buckets:
            dist.all_reduce(bucket.pack())
        return self.gradients()


class WhileBackward(Replica):
    """Sends a bucket, by its number, as soon as its last gradient is there."""

    send: Any

    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        for number, bucket in enumerate(self.buckets):
            # Gradients come in the order of the buckets.
            bucket.parameters[-1].register_post_accumulate_grad_hook(lambda _, number=number: self.send(number))


@both.variant(
    adds="backward overlap",
    why="a bucket is sent while the gradients of earlier layers are computed",
    predict="1.1 to 1.4x: 7.8 ms of computing beside 2.4 to 3.6 of all-reduce, which takes some SMs meanwhile",
)
class Overlapped(WhileBackward):
    def send(self, number):
        self.works.append(dist.all_reduce(self.buckets[number].pack(), async_op=True))

    def run(self, x, upstream, world_size):
        self.works: list[Any] = []
        self.backward(x, upstream, world_size)
        wait_all(self.works)
        return self.gradients()


@cuda.variant(
    builds_on="overlapped",
    adds="copy engines",
    why="copy engines carry the gradients and the SMs only add, so that the products keep nearly all of them",
)
class CopyEngines(WhileBackward):
    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        sizes = [sum(one.numel() for one in bucket.parameters) for bucket in self.buckets]
        self.peers = CopyEngineSums(sizes, weights[0].dtype)

    def send(self, number):
        self.peers.start(number, self.buckets[number].pack().view(-1))

    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        self.peers.wait()
        shape = self.parameters[0].shape
        return [gradient for sums in self.peers.sums for gradient in sums.view(-1, *shape)][::-1]


@both.yardstick(why="DistributedDataParallel of torch")
class Ddp:
    def prepare(self, weights, bucket_bytes):
        bucket_mb = bucket_bytes / 2**20
        self.model = torch.nn.parallel.DistributedDataParallel(Stack(weights), bucket_cap_mb=bucket_mb, init_sync=False)

    def run(self, x, upstream):
        for one in self.model.parameters():
            one.grad = None
        self.model(x).backward(upstream)  # it takes the mean itself
        return [one.grad for one in self.model.parameters()]
