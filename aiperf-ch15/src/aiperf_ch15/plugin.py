"""The contents page of chapter 15."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "moe_grouped_gemm",
        "The products of all experts are one, whose groups end where the routing says",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("moe", "matmul", "triton", "technique-92"),
    )
