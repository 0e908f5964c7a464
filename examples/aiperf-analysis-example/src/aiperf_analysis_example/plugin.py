"""The hook of this package. Nothing heavy is imported here: every command of aiperf loads this module."""

from collections.abc import Iterable

from aiperf_core.analysis import Analysis
from aiperf_core.hookspecs import hookimpl


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analysis `effort`."""
    yield Analysis("effort", "Show where the time of runs went", "aiperf_analysis_example.effort:analyze")
