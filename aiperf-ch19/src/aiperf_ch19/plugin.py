"""The contents page of chapter 19."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "kernel_autotune_dispatch",
        "No tile is best for all shapes, and a search need not try all of them",
        goal="speed",
        devices=BOTH,
        tags=("triton", "c", "gemm", "autotuning", "technique-82"),
    )
    yield Target(
        "early_exit",
        "A token that is decided early need not go through all layers",
        goal="latency",
        devices=BOTH,
        tags=("inference", "adaptive", "technique-118"),
    )
    yield Target(
        "dynamic_precision_decode",
        "Four bits are enough while the model is sure, and a doubt costs a second look",
        goal="latency",
        devices=BOTH,
        tags=("inference", "adaptive", "precision", "triton", "technique-117", "technique-118", "technique-119"),
    )
    yield Target(
        "fp4_weight_gemm",
        "Weights of four-bit floating point are unpacked by byte permutations in registers, at the rate of memory",
        goal="latency",
        devices=("cuda",),
        tags=("inference", "precision", "fp4", "gemv", "quantization", "cuda-cpp", "technique-69"),
    )
    yield Target(
        "expert_prefetch",
        "Fetch the expert of the next layer while this one is computed",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("inference", "moe", "offloading", "prefetch"),
    )
    yield Target(
        "adaptive_batch_controller",
        "How many texts fit into a step's deadline changes with what they hold",
        goal="throughput",
        devices=("cpu",),
        tags=("inference", "serving", "adaptive", "batching", "simulation", "technique-106"),
    )
    yield Target(
        "bandit_tuner",
        "A tuner that forgets finds the best setting again when the load changes",
        goal="speed",
        devices=("cpu",),
        tags=("inference", "adaptive", "bandit", "simulation", "technique-143"),
    )
