"""Ways to split the training of a transformer over GPUs: what lies on each GPU, and how long a step takes.

With P parameters, L layers of width h, s tokens a sequence, b sequences a micro-batch, and d x t x p GPUs (data,
tensor, pipeline):

memory    16 P / (t p) bytes for weights, gradients and Adam in mixed precision, of which the 12 of Adam are divided by
          d too (Rajbhandari et al., ZeRO, 2020, stage 1); 34 s b h / t for the activations of a layer when attention is
          recomputed (Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022), of
          L / p layers, for at most p micro-batches (1F1B).
compute   6 P tokens / GPUs at the measured rate of matrix products, longer by the bubble (p - 1) / m (Narayanan et al.,
          Efficient Large-Scale Language Model Training on GPU Clusters, 2021).
tensor    four all-reduces of s b h values in a layer, 2 (t - 1) / t of 2 bytes (Shoeybi et al., Megatron-LM, 2019).
data      a reduce-scatter and a gather of 2-byte values: 2 (d - 1) / d of 2 P / (t p) bytes.

All communication counts as exposed, so that the time is what a plan takes without any overlap.
"""

from attrs import frozen

from aiperf_core import units
from aiperf_core.errors import UsageError


@frozen(kw_only=True)
class Model:
    """A transformer and its batch.

    parameters, layers, width: of the model.
    sequence: tokens of a sequence.
    batch: sequences of a step, on all GPUs together.
    micro_batch: sequences of a micro-batch.
    """

    parameters: float
    layers: int
    width: int
    sequence: int = 4096
    batch: int = 512
    micro_batch: int = 1


@frozen(kw_only=True)
class Plan:
    """A split, and what it costs.

    data, tensor, pipeline: the number of GPUs in each direction.
    memory_bytes: on a GPU.
    compute_s: a step's arithmetic, bubble included.
    tensor_s, data_s: a step's communication.
    step_s: all of them.
    """

    data: int
    tensor: int
    pipeline: int
    memory_bytes: float
    compute_s: float
    tensor_s: float
    data_s: float

    @property
    def step_s(self) -> float:
        return self.compute_s + self.tensor_s + self.data_s


def plans(model: Model, gpus: int, memory_bytes: float, flop_per_s: float, link_bytes_per_s: float) -> list[Plan]:
    """All splits that fit, the fastest first. Raises `UsageError` where none fits."""
    every = [_plan(model, *split, flop_per_s, link_bytes_per_s) for split in _splits(model, gpus)]
    fitting = sorted((one for one in every if one.memory_bytes <= memory_bytes), key=lambda one: one.step_s)
    if not fitting:
        least = min((one.memory_bytes for one in every), default=0.0)
        found = f"the smallest needs {least / 1e9:.1f} GB on each" if every else "the batch cannot be divided"
        raise UsageError(
            f"no split over {units.plural('GPU', gpus)} of {memory_bytes / 1e9:.1f} GB fits: {found}. Take more GPUs "
            "(--gpus) or a smaller micro-batch"
        )
    return fitting


def _splits(model: Model, gpus: int) -> list[tuple[int, int, int]]:
    """Data, tensor and pipeline sizes that divide GPUs, width, layers and batch."""
    found = []
    for tensor in range(1, gpus + 1):
        for pipeline in range(1, gpus // tensor + 1):
            data = gpus // (tensor * pipeline)
            whole = data * tensor * pipeline == gpus and model.batch % (data * model.micro_batch) == 0
            if whole and model.width % tensor == 0 and model.layers % pipeline == 0:
                found.append((data, tensor, pipeline))
    return found


def _plan(model: Model, data: int, tensor: int, pipeline: int, flop_per_s: float, link_bytes_per_s: float) -> Plan:
    share = model.parameters / (tensor * pipeline)
    micro = model.batch // (data * model.micro_batch)
    border = model.sequence * model.micro_batch * model.width  # values between two layers
    layers = model.layers // pipeline
    ideal = 6 * model.parameters * model.batch * model.sequence / (data * tensor * pipeline) / flop_per_s
    reduced = 2 * (tensor - 1) / tensor * 2 * border
    return Plan(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        memory_bytes=share * (4 + 12 / data) + 34 * border / tensor * layers * min(pipeline, micro),
        compute_s=ideal * (1 + (pipeline - 1) / micro),
        tensor_s=4 * layers * micro * reduced / link_bytes_per_s,
        data_s=2 * (data - 1) / data * 2 * share / link_bytes_per_s,
    )
