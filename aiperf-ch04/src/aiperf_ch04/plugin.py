"""The contents page of chapter 4."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        name="allreduce_fusion",
        summary="Many small collectives are latency",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("distributed", "collectives"),
    )
