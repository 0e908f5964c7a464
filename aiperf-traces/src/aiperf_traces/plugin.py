"""The analyses of this package. Nothing heavy is imported here: every command of aiperf loads this module."""

from collections.abc import Iterable

from aiperf_core.analysis import Analysis
from aiperf_core.hookspecs import hookimpl


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses of traces."""
    yield Analysis("trace", "Break down the time of traces, and find the critical path.", "aiperf_traces.trace:analyze")
    yield Analysis("trace-diff", "Compare two traces piece by piece.", "aiperf_traces.trace_diff:analyze")
