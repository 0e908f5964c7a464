"""The contents page of chapter 20."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "fast_matmul_search",
        "Seven products in place of eight, by a scheme that a search finds",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("gemm", "algorithms", "search", "technique-144"),
    )
    yield Target(
        "verified_search",
        "A generated kernel is verified at awkward sizes before it is measured",
        goal="speed",
        devices=("cpu",),
        tags=("generated", "search", "fusion", "technique-123"),
        formerly=("kernel_generator",),
    )
    yield Target(
        "checkpoint_interval",
        "How often to write checkpoints, and where to, when a machine fails every half hour",
        goal="speed",
        devices=("cpu",),
        tags=("training", "checkpoint", "simulation", "failures"),
    )
