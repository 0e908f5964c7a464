"""Ladder B: a step of training on two ranks; what each way to share gradients is worth.

Question    What is each technique of data parallelism worth to a step of one model, alone and beside all others?
Numbers     Each rank has a batch of its own, and all have the mean of their gradients before AdamW. A rank sends
            2 (n - 1) / n of them: 3.8 MB of the `ci` model, 2.2 GB of the model `two`.
Prediction  By messages and bytes, see `costs`: stored in the plan before a run, and never edited after it.
Limits      The ranks of a CPU share its memory, so that a wire is a copy there. `narrow_wire` rounds each gradient.
"""

import torch.distributed as dist
from torch import nn

from aiperf_core import Benchmark, Cost, lossy
from aiperf_labs.one_model import train
from aiperf_labs.one_model.declared import declare
from aiperf_labs.one_model.serve import preset_of
from aiperf_labs.one_model.switches import BASELINE

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)


@bench.workload(
    smoke={"model": 0, "batch": 2, "length": 24, "dtype": "fp32", "world_size": 2},
    cpu={"model": 0, "batch": 2, "length": 96, "dtype": "fp32", "world_size": 2},
    cuda={"model": 2, "batch": 4, "length": 1024, "dtype": "bf16", "world_size": 2},
    state=train.MOMENTS,
)
def inputs(model, batch, length, rank, world_size, device, generator):
    return train.inputs(model, batch, length, device, generator)


@bench.reference(tolerance=train.rounding)
def reference(texts, weights, averages, squares, counts, model, world_size):
    every = [weights, averages, squares, counts]
    steps = [
        train.Step(
            preset_of(model), BASELINE, *({name: one.clone() for name, one in kind[rank].items()} for kind in every)
        )
        for rank in range(world_size)
    ]
    found = [one.loss(some) for one, some in zip(steps, texts, strict=True)]
    mean = {name: sum(gradients[name] for _, gradients in found) / world_size for name in weights[0]}
    return [one.finished(loss, {**mean}) for one, (loss, _) in zip(steps, found, strict=True)]


@bench.cost
def cost(model, batch, length, bits, world_size):
    sizes = preset_of(model).model
    return Cost(
        bytes_read=16 * sizes.parameters,
        bytes_written=16 * sizes.parameters,
        flops=6 * sizes.active * batch * length,
        precision="bf16" if bits == 16 else "fp32",
        wire_bytes=2 * (world_size - 1) / world_size * 4 * sizes.parameters,
        tokens=batch * length,
    )


bench.awkward({"batch": 1, "length": 1}, {"batch": 1, "length": 37, "world_size": 3})


class Share:
    """A step on one rank, with the mean of all ranks' gradients."""

    flags = BASELINE

    def prepare(self, weights, averages, squares, counts, model, bits, world_size):
        self.step = train.Step(preset_of(model), self.flags, weights, averages, squares, counts, bits)
        self.ranks = world_size

    def run(self, texts):
        loss, found = self.step.loss(texts)
        return self.step.finished(loss, dict(zip(found, self.mean([*found.values()]), strict=True)))

    def mean(self, gradients):
        """The mean of gradients over all ranks."""
        if not self.flags.bucketed:
            for one in gradients:
                dist.all_reduce(one)
                one.div_(self.ranks)
            return gradients
        bucket = nn.utils.parameters_to_vector(gradients)
        if self.flags.narrow_wire:
            bucket = bucket.bfloat16()
        dist.all_reduce(bucket)
        parts = (bucket.float() / self.ranks).split([one.numel() for one in gradients])
        return [part.view_as(one) for part, one in zip(parts, gradients, strict=True)]


# A gradient is rounded to bfloat16, and so is the sum of two.
declare(bench, Share, "ranks", lossy("rel_l2", at_most=2e-2))
