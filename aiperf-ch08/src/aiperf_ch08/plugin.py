"""The contents page of chapter 8."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "ilp_chains",
        "Independent chains of multiply-adds fill the pipe",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "latency", "technique-25"),
    )
    yield Target(
        "gemv_mapping",
        "Lanes that work side by side must read side by side",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "memory", "gemv", "technique-9", "technique-14", "technique-15"),
    )
    yield Target(
        "warp_divergence",
        "Keep the lanes of a warp on one path",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "warp", "divergence", "technique-27"),
    )
    yield Target(
        "load_imbalance",
        "Equal shares of all nonzeros, whatever their rows",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "warp", "sparse"),
    )
    yield Target(
        "atomics_aggregation",
        "One atomic for a warp or a block, not for an element",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "warp", "atomics", "technique-53"),
    )
    yield Target(
        "occupancy_vs_ilp",
        "More warps, or more loads in each, hide the same latency",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "latency", "occupancy", "technique-22", "technique-26"),
    )
