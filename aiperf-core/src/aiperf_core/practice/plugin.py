"""The contents page of the targets to practise on."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the practice targets, the simplest first."""
    yield Target(
        "sum_rows",
        "The sum of each row: read everything once",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("practice", "memory"),
    )
    yield Target(
        "softmax",
        "Softmax over rows: a maximum, a sum and a division in as few passes as possible",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("practice", "memory"),
    )
    yield Target(
        "matmul",
        "A product of matrices in float32, with a weight that may be prepared ahead",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("practice", "gemm"),
    )
