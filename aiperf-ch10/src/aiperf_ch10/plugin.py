"""The contents page of chapter 10."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "single_pass_reduction",
        "Finish a reduction in the launch that began it",
        "speed",
        BOTH,
        ("cuda-cpp", "atomics", "clusters", "technique-45", "technique-46"),
    )
