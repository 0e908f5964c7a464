"""The contents page of the practice targets."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the practice targets, the simplest first."""
    for name, summary, tag in (
        ("sum_rows", "The sum of each row: read everything once", "memory"),
        ("softmax", "Softmax over rows: a maximum, a sum and a division in as few passes as possible", "memory"),
        ("matmul", "A product of matrices in float32, with a weight that may be prepared ahead", "gemm"),
    ):
        yield Target(name, summary, goal="speed", devices=("cpu", "cuda"), tags=("practice", tag))
