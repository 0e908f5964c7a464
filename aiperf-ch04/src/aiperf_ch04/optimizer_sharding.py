"""Sharded optimizer: do not keep n copies of Adam's state.

Question    How much memory does each stage of sharding save a rank, at the same bytes on the wire?
Numbers     3 steps of AdamW on 18 layers of 2^25 float32 parameters on two GPUs, of which each rank holds a share of n.
            A rank's gradient of a layer needs all parameters of the layer; a step starts when all gradients are there,
            as clipping by their norm would need. What counts is the most memory beside the inputs: unsharded 16 bytes a
            parameter, 4 for itself, 4 for its gradient and 8 for its moments.
Prediction  The stages of ZeRO (Rajbhandari et al., Memory Optimizations Toward Training Trillion Parameter Models,
            2020) keep 8 P + 8 P / n, 4 P + 12 P / n and 12 P / n bytes for P parameters and n ranks: 0.75, 0.63 and
            0.38 on two, and a few layers more for a short time.
Limits      One rank. As many bytes travel as in an all-reduce, so that time is not what is gained. On a CPU the memory
            is the growth of the process: buffers of the collectives and spare pages come with it.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.distributed import all_gather, reduce_scatter

bench = Benchmark(goal="memory", clock="wall")
both = bench.on(("cpu", "cuda"))

RATE, FIRST, SECOND, DECAY = 1e-2, 0.9, 0.999, 0.01
# Where the ranks' gradients cancel, the float32 sum depends on the order in which it is made: by some 2e-7, of
# gradients around 1. A step divides by what is left, so that the error of a weight is RATE * 2e-7 / EPS. With Adam's
# usual 1e-8 that would be more than the weight; here it is a hundred thousandth of the weights' root mean square, a
# tenth of what an element may be off.
EPS = 1e-2


@bench.workload(
    state=["share"],
    smoke={"layers": 3, "n": 331, "steps": 3, "world_size": 2},
    cpu={"layers": 8, "n": 1 << 18, "steps": 3, "world_size": 2},
    cuda={"layers": 18, "n": 1 << 25, "steps": 3, "world_size": 2},  # 1.2 G parameters
)
def inputs(layers, n, steps, device, generator, world_size):
    return {
        "share": 0.02 * torch.randn(layers, n, device=device, generator=generator),
        "target": torch.randn(world_size * n, device=device, generator=generator),
        # Near 1, and of either sign: another one for each rank, step and layer.
        "curvature": torch.randn(steps, layers, device=device, generator=generator).sign()
        * (0.5 + torch.rand(steps, layers, device=device, generator=generator)),
    }


@bench.reference(tolerance=fp32_reduction)
def reference(share, target, curvature, world_size):
    # Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
    shares = [torch.empty_like(one) for one in share]
    for layer in range(len(share[0])):
        weights = torch.cat([one[layer] for one in share])
        first, second = torch.zeros_like(weights), torch.zeros_like(weights)
        for step in range(len(curvature[0])):
            each = (one[step, layer] * (weights - aim) for one, aim in zip(curvature, target, strict=True))
            mean = sum(each) / world_size
            weights = weights * (1 - RATE * DECAY)
            first = FIRST * first + (1 - FIRST) * mean
            second = SECOND * second + (1 - SECOND) * mean**2
            unbiased = first / (1 - FIRST ** (step + 1)), second / (1 - SECOND ** (step + 1))
            weights = weights - RATE * unbiased[0] / (unbiased[1].sqrt() + EPS)
        for one, part in zip(shares, weights.chunk(world_size), strict=True):
            one[layer] = part
    return shares


@bench.cost
def cost(layers, n, steps, world_size):
    parameters = layers * n * world_size
    return Cost(
        bytes_read=4 * (layers * n + world_size * n + steps * layers),
        bytes_written=4 * layers * n,
        flops=(2 + 12 / world_size) * steps * parameters,
        # In each step a gather of the parameters and a reduce-scatter of the gradients: (n - 1) / n of the data each.
        wire_bytes=(world_size - 1) / world_size * 4 * 2 * steps * parameters,
    )


# A single element a rank, of three ranks.
bench.awkward({"layers": 2, "n": 1, "steps": 1, "world_size": 3})
# 12 of 16 bytes, halved by two ranks, and two whole layers of 18 at 4 bytes: 0.40; with 5 % more, 0.42.
bench.reach(of="memory:replicated", at_most=0.42, implementation="sharded_parameters")
bench.reach(of="time:replicated", at_most=1.1, implementation="sharded_parameters")


class Adam:
    """AdamW with a state of its own for some parameters, changed in place and layer after layer, to save memory."""

    def __init__(self, weights):
        self.weights = weights
        self.moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]
        self.steps = 0

    def step(self, gradients):
        """Update the weights with the gradients, which are overwritten."""
        self.steps += 1
        for weight, (first, second), gradient in zip(self.weights, self.moments, gradients, strict=True):
            first.lerp_(gradient, 1 - FIRST)
            second.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
            scale = torch.div(second, 1 - SECOND**self.steps, out=gradient).sqrt_().add_(EPS)
            weight.mul_(1 - RATE * DECAY).addcdiv_(first, scale, value=-RATE / (1 - FIRST**self.steps))


@both.baseline(kind="reasonable")
class Replicated:
    """A training loop; the methods choose what a rank keeps."""

    def run(self, share, target, curvature, rank, world_size):
        self.share, self.rank, self.ranks = share, rank, world_size
        self.begin()
        optimizer = Adam(self.updated())
        for factors in curvature:
            self.begin_step()
            gradients = [
                self.reduced((self.whole(layer) - target).mul_(factor)) for layer, factor in enumerate(factors)
            ]
            optimizer.step(self.of_updated(gradients))
            del gradients
        return self.end()

    def begin(self):
        self.weights = self.share.new_empty(len(self.share), self.ranks * self.share.shape[1])
        self.gather()

    def gather(self):
        """All parameters from all shares, a row for each layer."""
        for whole, part in zip(self.weights, self.share, strict=True):
            all_gather(whole, part)

    def begin_step(self):
        """Called before the gradients of a step are made."""

    def whole(self, layer):
        """All parameters of a layer."""
        return self.weights[layer]

    def reduced(self, gradient):
        """What is kept of a layer's gradient until the step."""
        dist.all_reduce(gradient)
        return gradient.div_(self.ranks)

    def updated(self):
        """The parameters that this rank updates, by layer."""
        return list(self.weights)

    def of_updated(self, gradients):
        """The mean gradients of the parameters that this rank updates."""
        return gradients

    def end(self):
        """This rank's share of the updated parameters."""
        return self.share.copy_(self.weights.view(len(self.share), self.ranks, -1)[:, self.rank])


@both.variant(adds="sharded moments", why="a rank keeps the moments of its share alone, and gathers what others update")
class ShardedMoments(Replicated):
    def begin(self):
        self.weights = self.share.new_empty(len(self.share), self.ranks * self.share.shape[1])

    def begin_step(self):
        self.gather()

    def reduced(self, gradient):
        return gradient.view(self.ranks, -1)

    def updated(self):
        return list(self.share)

    def of_updated(self, gradients):
        for gradient in gradients:
            reduce_scatter(gradient[self.rank], gradient)  # in place
        return [gradient[self.rank].div_(self.ranks) for gradient in gradients]

    def end(self):
        return self.share


@both.variant(
    builds_on="sharded_moments",
    adds="sharded gradients",
    why="a layer's gradient is reduced to this rank's share as soon as it is made, and the rest is dropped",
)
class ShardedGradients(ShardedMoments):
    def reduced(self, gradient):
        mean = gradient.new_empty(self.share.shape[1])
        reduce_scatter(mean, gradient)
        return mean.div_(self.ranks)

    def of_updated(self, gradients):
        return gradients


@both.variant(
    builds_on="sharded_gradients",
    adds="sharded parameters",
    why="the parameters of a layer are whole only while its gradient is made",
)
class ShardedParameters(ShardedGradients):
    def begin(self):
        """No memory for all parameters."""

    def begin_step(self):
        """Layers are gathered one by one."""

    def whole(self, layer):
        whole = self.share.new_empty(self.ranks * self.share.shape[1])
        all_gather(whole, self.share[layer])
        return whole


@both.yardstick(why="FSDP of torch (fully_shard) with its AdamW, a group for each layer")
class FullyShard:
    def prepare(self, share, target):
        from torch.distributed.fsdp import fully_shard

        self.layers: list[Any] = [fully_shard(Quadratic(torch.empty_like(target))) for _ in share]

    def run(self, share, target, curvature):
        weights = [layer.weight for layer in self.layers]
        with torch.no_grad():
            for weight, part in zip(weights, share, strict=True):
                weight.to_local().copy_(part)
        optimizer = torch.optim.AdamW(weights, lr=RATE, betas=(FIRST, SECOND), eps=EPS, weight_decay=DECAY, fused=True)
        for factors in curvature:
            for layer, factor in zip(self.layers, factors, strict=True):
                layer(factor, target).backward()
            optimizer.step()
            optimizer.zero_grad()
        for weight, part in zip(weights, share, strict=True):
            part.copy_(weight.detach().to_local())
        return share


class Quadratic(torch.nn.Module):
    """A layer whose loss has the workload's gradient."""

    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, curvature, target):
        return curvature / 2 * (self.weight - target).square().sum()
