"""The contents page of chapter 7."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "memory_access",
        "Neighbours in a warp should touch neighbours in memory",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("cuda-cpp", "memory"),
    )
