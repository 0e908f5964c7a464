"""Overlapped gradients: send those of the last layers while the backward pass of the first still runs.

Workload   Each rank has `rows` samples of its own and a copy of a model, `layers` residual layers of Linear and GELU
           of `width`, in bfloat16. Forward, backward; the result on all ranks is the mean of the gradients of all.
Baseline   An all-reduce for each parameter, after the backward pass.
Variants   `flat_buckets`: gradients are copied into buckets of `bucket_bytes`, which are reduced after the backward
           pass.  `overlapped`: a bucket is reduced as soon as its last gradient is there.  `compressed` (cuda): its
           gradients travel as 8-bit integers, with a scale for each 256.  `copy_engines` (cuda): ranks write into each
           other's memory by copies, and only sums are left to the multiprocessors.
Yardstick  `ddp`: torch's DistributedDataParallel with buckets of the same size.
Breaks     Parameters of `bucket_bytes` or more: each is sent alone, and `flat_buckets` equals the baseline. Few or
           small layers: the last bucket is never hidden. On GPUs the collective takes multiprocessors and memory
           bandwidth from the products beside it. The least time is the longer of computing and sending. Each can be
           measured alone: `--size compute_alone` has a single rank, `--size comm_alone` a single sample.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.eight_bits import EightBitSum, int8_kernels
from aiperf_ch04.residual import Stack, forward, same_weights
from aiperf_ch04.rounding import rounded_layers
from aiperf_core import Benchmark, Cost, lossy
from aiperf_core.distributed import put, symmetric_buffers, wait_all

bench = Benchmark(goal="throughput", clock="wall")
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="gpus:2")

STREAMS = 2  # on which buckets travel
# Three parameters of 8 MiB share a bucket.
STEP: dict[str, float] = {"layers": 48, "width": 2048, "rows": 2048, "bucket_bytes": 25 << 20, "world_size": 2}


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


@both.baseline(kind="naive")
class EachAfterBackward(Replica):
    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        for one in self.parameters:
            dist.all_reduce(one.grad)
        return [one.grad for one in self.parameters]


@both.variant(adds="bucketing", why="one latency for each bucket instead of one for each parameter, for a copy of it")
class FlatBuckets(Replica):
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
    builds_on="flat_buckets",
    adds="backward overlap",
    why="a bucket is sent while the gradients of earlier layers are computed",
)
class Overlapped(WhileBackward):
    def send(self, number):
        self.works.append(dist.all_reduce(self.buckets[number].pack(), async_op=True))

    def run(self, x, upstream, world_size):
        self.works: list[Any] = []
        self.backward(x, upstream, world_size)
        wait_all(self.works)
        return self.gradients()


class OnStreams(WhileBackward):
    """Reduces buckets on streams of their own.

    reduce(gradient, number): adds a bucket up over the ranks. Each implementation has its own.
    sums: the results by bucket.
    """

    reduce: Any
    sums: list[torch.Tensor]

    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        # Waits of a bucket shall not hold up those of the one before.
        self.streams = [torch.cuda.Stream(priority=-1) for _ in range(STREAMS)]
        self.sizes = [sum(one.numel() for one in bucket.parameters) for bucket in self.buckets]

    def send(self, number):
        gradient, stream = self.buckets[number].pack().view(-1), self.streams[number % STREAMS]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.reduce(gradient, number)

    def run(self, x, upstream, world_size):
        self.backward(x, upstream, world_size)
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
        shape = self.parameters[0].shape
        return [gradient for sums in self.sums for gradient in sums.view(-1, *shape)][::-1]


@cuda.variant(
    requires=("sm_80", "package:triton"),
    builds_on="overlapped",
    adds="8-bit gradients",
    why="half the bytes on the wire, for three kernels that encode, add and decode them",
    # To the roundings of `rounded_layers` come those of two codes, of what a rank has and of the sums. Of 256 normal
    # numbers the largest is some 2.8 times their root mean square: a code is off by 2.8 / 127 / 12 ** 0.5, 0.64 %.
    lossy=lossy("rel_l2", at_most=2.4e-2),
)
class Compressed(OnStreams):
    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        device = weights[0].device
        self.codecs = [EightBitSum(size, device, int8_kernels, keep=False) for size in self.sizes]
        self.sums = [weights[0].new_empty(size) for size in self.sizes]

    def reduce(self, gradient, number):
        self.codecs[number](gradient, self.sums[number])


@cuda.variant(
    builds_on="overlapped",
    adds="copy engines",
    why="copy engines carry the gradients, and the products keep nearly all multiprocessors for themselves",
)
class CopyEngines(OnStreams):
    """Each rank is sent its share of every bucket by all others, adds it up and sends them the sums."""

    def prepare(self, weights, bucket_bytes):
        super().prepare(weights, bucket_bytes)
        world, sizes = dist.get_world_size(), self.sizes
        self.peers = symmetric_buffers(2, len(sizes), world * -(-max(sizes) // world), dtype=weights[0].dtype)
        self.routes = [
            Route([memory[:, number] for memory in self.peers.all], dist.get_rank(), size)
            for number, size in enumerate(sizes)
        ]
        self.sums = [route.sums for route in self.routes]

    def reduce(self, gradient, number):
        route, channel = self.routes[number], number % STREAMS
        for to, share in route.scattered:
            put(to, gradient[share])
        self.peers.barrier(channel)
        torch.sum(route.parts, 0, out=route.total)
        for to in route.gathered:
            put(to, route.total)
        self.peers.barrier(channel)


class Route:
    """Where the shares of a bucket of `size` numbers go: in the `memories` of all ranks are two places for it.

    In the first one lies what all ranks have of a rank's share, in the second one the sums of all shares.
    """

    def __init__(self, memories, rank, size):
        world = len(memories)
        share = -(-size // world)
        parts, sums = zip(*(memory[:, : world * share].view(2, world, share) for memory in memories), strict=True)
        order = [*range(rank + 1, world), *range(rank + 1)]  # not all send to the same one first
        shares = [slice(one * share, min(size, (one + 1) * share)) for one in range(world)]
        self.scattered = [(parts[one][rank].view(-1)[: max(0, size - one * share)], shares[one]) for one in order]
        self.gathered = [sums[one][rank] for one in order[:-1]]
        self.parts, self.total, self.sums = parts[rank], sums[rank][rank], sums[rank].view(-1)[:size]


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
