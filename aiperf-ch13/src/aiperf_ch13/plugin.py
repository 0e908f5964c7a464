"""The contents page of chapter 13."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "activation_memory",
        "A training step need not keep what it can compute again or put elsewhere",
        goal="memory",
        devices=("cpu", "cuda"),
        tags=("memory", "training", "checkpointing"),
    )
    yield Target(
        "chunked_cross_entropy",
        "The logits of a large vocabulary need not exist at the same time",
        goal="memory",
        devices=("cpu", "cuda"),
        tags=("memory", "training", "cross-entropy"),
    )
    yield Target(
        "train_step_stack",
        "A small training step is launches and small kernels, which fusion, compilation and a graph remove",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=("training", "cuda-graphs", "compilation", "optimizer"),
    )
    yield Target(
        "optimizer_step",
        "An update of parameters is bytes: one pass in place of a dozen, and moments in fewer bits",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("training", "optimizer", "stochastic-rounding", "quantization"),
    )
    yield Target(
        "mixed_precision",
        "Products of half the bits take half the time, and the gradients say what it costs",
        goal="speed",
        devices=("cuda",),
        tags=("training", "precision", "tensor-cores", "technique-10"),
    )
    yield Target(
        "fp8_training",
        "A training step in 8 bits gains what its products gain, less the rounding of all operands",
        goal="throughput",
        devices=("cuda",),
        tags=("training", "precision", "fp8", "tensor-cores", "technique-64"),
    )
