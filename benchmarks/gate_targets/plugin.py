"""The contents page: one target."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the target."""
    yield Target("reflect", "Reflections of numbers: arithmetic without memory", goal="speed", devices=("cpu",))
