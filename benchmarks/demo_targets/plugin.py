"""The contents page: one target."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the target."""
    yield Target("row_norm", "Rows of mean 0 and variance 1: read them once", goal="speed", devices=("cpu",))
