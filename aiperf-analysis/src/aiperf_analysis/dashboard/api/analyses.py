"""Analyses by REST: the `Result` that `aiperf analyze NAME --json` prints."""

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked
from aiperf_analysis.result import Result


def of_endpoint(asked: Asked) -> Result:
    """The result of the analysis of the endpoint."""
    return asked.site.result(asked.analysis, asked.filters, filters.others(asked.query))
