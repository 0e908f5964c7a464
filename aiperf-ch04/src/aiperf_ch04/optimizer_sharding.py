"""Sharded optimizer: do not keep n copies of Adam's state.

Workload   `steps` steps of AdamW on `layers` tensors of float32 parameters, of which each rank brings a share of n. In
           each step every rank has gradients of all of them, which may be overwritten. All ranks shall hold all
           parameters, moved by the mean of the gradients. What counts is the most memory that a rank takes beside its
           inputs.
Baseline   Every rank gathers the parameters, reduces all gradients and keeps both moments of all parameters: with P
           parameters, 12 P bytes.
Variants   `sharded`: a rank keeps the moments of its share, is given the sums of its share of the gradients, updates
           its share and sends it to the others (ZeRO, stage 1): 4 P + 12 P / ranks.  `in_place`: the sums are written
           over the gradients: 4 P + 8 P / ranks.
Yardstick  `zero_redundancy`: torch's ZeroRedundancyOptimizer, which deals out whole tensors.
Breaks     One rank. As many bytes travel as in an all-reduce, so that time is not what is gained.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.distributed import all_gather, reduce_scatter

bench = Benchmark(goal="memory", clock="wall")

RATE, FIRST, SECOND, DECAY = 1e-2, 0.9, 0.999, 0.01
# Where the ranks' gradients cancel, the float32 sum depends on the order in which it is made: by some 2e-7, of
# gradients around 1. A step divides by what is left, so that the error of a weight is RATE * 2e-7 / EPS. With Adam's
# usual 1e-8 that would be more than the weight; here it is a hundred thousandth of the weights' root mean square, a
# tenth of what an element may be off.
EPS = 1e-2


@bench.workload(
    state=["gradients"],
    smoke={"layers": 3, "n": 331, "steps": 3, "world_size": 2},
    cpu={"layers": 8, "n": 1 << 17, "steps": 3, "world_size": 2},
    cuda={"layers": 16, "n": 1 << 22, "steps": 3, "world_size": 2},
)
def inputs(layers, n, steps, device, generator, world_size):
    share = 0.02 * torch.randn(layers, n, device=device, generator=generator)
    return {"share": share, "gradients": torch.randn(steps, layers, world_size * n, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(share, gradients, world_size):
    # Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
    weights = torch.cat(share, dim=1)
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for step, mean in enumerate(sum(gradients[1:], gradients[0]) / world_size, 1):
        weights = weights * (1 - RATE * DECAY)
        first = FIRST * first + (1 - FIRST) * mean
        second = SECOND * second + (1 - SECOND) * mean**2
        unbiased = first / (1 - FIRST**step), second / (1 - SECOND**step)
        weights = weights - RATE * unbiased[0] / (unbiased[1].sqrt() + EPS)
    return [weights for _ in share]


@bench.cost
def cost(layers, n, steps, world_size):
    parameters = layers * n * world_size
    return Cost(
        bytes_read=4 * layers * n + 4 * steps * parameters,
        bytes_written=4 * parameters,
        flops=12 * steps * parameters / world_size,
        # A reduce-scatter of the gradients in each step, and a gather of the parameters after the last: (n - 1) / n of
        # the data each. The gradients of all steps are given, so no other step needs the parameters of other ranks.
        wire_bytes=(world_size - 1) / world_size * 4 * (steps + 1) * parameters,
    )


class Adam:
    """AdamW with a state of its own for some parameters, changed in place and one after the other, to save memory."""

    def __init__(self, weights):
        self.weights = weights
        self.moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in weights]
        self.steps = 0

    def step(self, gradients):
        self.steps += 1
        for weight, (first, second), gradient in zip(self.weights, self.moments, gradients, strict=True):
            first.lerp_(gradient, 1 - FIRST)
            second.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
            scale = (second / (1 - SECOND**self.steps)).sqrt_().add_(EPS)
            weight.mul_(1 - RATE * DECAY).addcdiv_(first, scale, value=-RATE / (1 - FIRST**self.steps))


def gathered(share, world_size):
    """All parameters, a row for each layer."""
    weights = share.new_empty(len(share), world_size * share.shape[1])
    for whole, part in zip(weights, share, strict=True):
        all_gather(whole, part)
    return weights


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
class Replicated:
    def optimizer(self, weights):
        return Adam(weights)

    def run(self, share, gradients, world_size):
        weights = gathered(share, world_size)
        optimizer = self.optimizer(list(weights))
        for step in gradients:
            for gradient in step:
                dist.all_reduce(gradient)
            optimizer.step(step.div_(world_size))
        return weights


@bench.variant(device=("cpu", "cuda"), why="each rank keeps the moments of its share alone")
class Sharded:
    def place(self, gradient, rank):
        """Where the sums of this rank's share go; `gradient` has a row for each rank's share."""
        return torch.empty_like(gradient[rank])

    def run(self, share, gradients, rank, world_size):
        weights = share.new_empty(len(share), world_size, share.shape[1])
        weights[:, rank] = share
        optimizer = Adam(list(weights[:, rank]))
        for step in gradients.view(len(gradients), *weights.shape):
            means = []
            for gradient in step:
                means.append(self.place(gradient, rank))
                reduce_scatter(means[-1], gradient)
                means[-1] /= world_size
            optimizer.step(means)
            for whole in weights:
                all_gather(whole, whole[rank])
        return weights.flatten(1)


@bench.variant(
    device=("cpu", "cuda"),
    builds_on="sharded",
    why="the sums of a share take the place of the gradients that went into them",
)
class InPlace(Sharded):
    def place(self, gradient, rank):
        return gradient[rank]


@bench.yardstick(
    device="cuda", requires="gpus:2", why="ZeroRedundancyOptimizer of torch, after the baseline's reductions"
)
class ZeroRedundancy(Replicated):
    def optimizer(self, weights):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        self.parameters = [torch.nn.Parameter(one) for one in weights]
        how: dict[str, Any] = {"lr": RATE, "betas": (FIRST, SECOND), "eps": EPS, "weight_decay": DECAY, "fused": True}
        self.sharded = ZeroRedundancyOptimizer(self.parameters, torch.optim.AdamW, **how)
        return self

    def step(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.sharded.step()
