"""The contents page of chapter 16."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "dynamic_batching",
        "Requests that wait a little share a pass through the weights",
        "throughput",
        ("cpu", "cuda"),
        ("inference", "serving", "latency"),
    )
