"""The contents page of the labs."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "moe_ladder",
        "From a mask for each expert to two kernels for all of them",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("lab-moe-optimization-journey", "moe", "matmul", "triton", "technique-92"),
    )
    yield Target(
        "draft_verify",
        "A draft guesses, the target judges, and the number of guesses follows success",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("lab-speculative-decode", "inference", "decoding", "speculation", "technique-113", "technique-114"),
    )
