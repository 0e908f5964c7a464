"""The contents page of chapter 1."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "batched_gemm",
        "40 tiny GEMMs are 40 launches; one batched call is one",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("gemm", "triton", "launch"),
    )
