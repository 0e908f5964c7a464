"""Ways to divide a model over GPUs, filtered by memory. Nothing here says which is faster: that is measured."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import field, frozen

from aiperf_calc.kv_cache import cache_bytes, cached
from aiperf_calc.model import Weights, activation_bytes, training, weights
from aiperf_calc.parts import ModelShape
from aiperf_core.errors import UsageError

Fit = Literal["FITS", "MAYBE", "FAILS"]


@frozen(kw_only=True)
class Work:
    """The work of the GPUs.

    train: training with Adam in mixed precision, or serving.
    dtype: of the weights that are served; None as the checkpoint stores them. kv_dtype: of the cache.
    tokens: the tokens of a sequence.
    sequences: sequences of a micro-batch on a data-parallel rank (training), or at once on a replica (serving).
    micro_batches: those of a step, for the bubble of the pipeline.
    recomputation: of activations.
    page: tokens of a page of the cache.
    """

    train: bool = False
    dtype: str | None = None
    kv_dtype: str = "bf16"
    tokens: int = 4096
    sequences: int = 1
    micro_batches: int = 1
    recomputation: str = "none"
    page: int = 1


@frozen(kw_only=True)
class Way:
    """A way to divide the model.

    tensor, pipeline, expert, data: the GPUs that share a layer, the stages, the GPUs that share the experts, and the
        replicas.
    zero: the stage of ZeRO.
    weights, gradients, optimizer, activations, cache: bytes of the fullest GPU.
    low, high: the bytes of the fullest GPU where everything divides evenly, and where it does as badly as it can: the
        stage with the most layers also has embedding and head, and the reserve is used.
    bubble: the idle share of the pipeline's time.
    """

    tensor: int
    pipeline: int
    expert: int
    data: int
    zero: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    cache: float
    low: float
    high: float
    bubble: float
    fit: Fit = field(default="FAILS")

    @property
    def name(self) -> str:
        """Such as `TP4 PP2 EP1 DP1 ZeRO0`."""
        return f"TP{self.tensor} PP{self.pipeline} EP{self.expert} DP{self.data} ZeRO{self.zero}"


def bubble(stages: int, micro_batches: int) -> float:
    """The share of a step that a pipeline's stages are idle: (p - 1) / (m + p - 1).

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021,
    section 2.2, where the idle time is given relative to the ideal time instead.
    """
    if min(stages, micro_batches) < 1:
        raise UsageError(f"a pipeline takes stages and micro-batches from 1; got {stages} and {micro_batches}.")
    return (stages - 1) / (micro_batches + stages - 1)


def ways(shape: ModelShape, gpus: int, memory: float, reserve: float, work: Work) -> list[Way]:
    """All ways to divide a model over `gpus` GPUs of `memory` bytes, those that fit first.

    reserve: bytes of each GPU for all that is not counted: the CUDA context, workspaces and fragmentation.

    Tensor parallelism divides the heads of queries evenly, and repeats heads of keys and values where there are fewer;
    expert parallelism divides the experts evenly over the GPUs of all replicas that hold the same layers; ZeRO needs
    training and replicas. Recurrent layers are not divided.
    """
    if gpus < 1 or memory <= 0 or not 0 <= reserve < memory:
        raise UsageError(
            f"parallel takes GPUs from 1, a memory above 0 and a reserve below it; got {gpus} GPUs, {memory:g} bytes "
            f"and a reserve of {reserve:g} bytes."
        )
    if work.train and shape.recurrent:
        raise UsageError(f"the activations of recurrent layers ({shape.name}) are not known. Leave out --train.")
    stored = weights(shape, "fp8" if work.train else work.dtype)
    made = [_way(shape, stored, memory, reserve, work, *parts) for parts in _divisions(shape, gpus, work.train)]
    order = {"FITS": 0, "MAYBE": 1, "FAILS": 2}
    return sorted(made, key=lambda way: (order[way.fit], way.tensor, way.pipeline, way.expert, way.zero))


def _divisions(shape: ModelShape, gpus: int, train: bool) -> Iterator[tuple[int, int, int, int, int]]:
    """Tensor, pipeline, expert, data and ZeRO of all ways that divide evenly."""
    for tensor in _divisors(gpus):
        if shape.heads % tensor or shape.hidden % tensor or (shape.recurrent and tensor > 1):
            continue
        for pipeline in _divisors(gpus // tensor):
            if pipeline > shape.layers:
                continue
            data = gpus // tensor // pipeline
            experts = [1]
            if shape.experts is not None:
                experts = [count for count in _divisors(tensor * data) if shape.experts.count % count == 0]
            for expert in experts:
                for zero in (0, 1, 2, 3) if train and data > 1 else (0,):
                    yield tensor, pipeline, expert, data, zero


def _divisors(number: int) -> Sequence[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _way(
    shape: ModelShape, stored: Weights, memory: float, reserve: float, work: Work,
    tensor: int, pipeline: int, expert: int, data: int, zero: int,
) -> Way:  # fmt: skip
    """The memory of the fullest GPU of one way."""
    # Experts are whole on a GPU under expert parallelism; without it tensor parallelism divides them.
    over = expert if expert > 1 else tensor
    copies = max(1, tensor * data // over)
    stage = math.ceil(shape.layers / pipeline)
    dense, experts = (
        math.fsum(
            share.largest * shape.fullest(share.letters, stage) for share in stored.shares if share.routed == routed
        )
        for routed in (False, True)
    )
    dense, experts = (dense + stored.ends) / tensor, experts / over
    share = math.fsum(share.total for share in stored.shares if share.routed)
    even = (stored.total - share) / tensor / pipeline
    share = share / over / pipeline
    if work.train:  # of a format of one byte, so that bytes are parameters
        parts = [training(dense, zero, data), training(experts, zero, copies)]
        held, gradients, optimizer = (
            sum(getattr(part, name) for part in parts) for name in ("weights", "gradients", "optimizer")
        )
        least = training(even, zero, data).total + training(share, zero, copies).total
    else:
        held, gradients, optimizer = dense + experts, 0.0, 0.0
        least = even + share
    activations, cache, kept = _running(shape, work, tensor, pipeline, stage)
    low, high = least + kept, held + gradients + optimizer + activations + cache + reserve
    fit: Fit = "FITS" if high <= memory else "MAYBE" if low <= memory else "FAILS"
    return Way(
        tensor=tensor, pipeline=pipeline, expert=expert, data=data, zero=zero, weights=held, gradients=gradients,
        optimizer=optimizer, activations=activations, cache=cache, low=low, high=high,
        bubble=bubble(pipeline, work.micro_batches), fit=fit,
    )  # fmt: skip


def _running(shape: ModelShape, work: Work, tensor: int, pipeline: int, stage: int) -> tuple[float, float, float]:
    """Bytes of activations and of the cache on the fullest GPU, and the least of both together."""
    if work.train:
        layer = activation_bytes(
            shape, work.tokens, work.sequences, recomputation=work.recomputation, tensor=tensor, sequence=tensor > 1
        )
        # Of the first stage, which has as many micro-batches in flight as there are stages (1F1B).
        flight = min(pipeline, work.micro_batches)
        return layer * stage * flight, 0.0, layer * shape.layers / pipeline * flight
    whole, fullest = (
        cache_bytes(cached(shape, layers), work.kv_dtype, work.tokens, work.sequences, page=work.page)
        for layers in (shape.layers, stage)
    )
    parts = shape.cache_parts(tensor)
    return 0.0, fullest / parts, whole / pipeline / parts
