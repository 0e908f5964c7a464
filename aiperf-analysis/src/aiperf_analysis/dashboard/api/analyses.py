"""Analyses by REST: the `Result` that `aiperf analyze NAME --json` prints."""

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Answer, Asked
from aiperf_analysis.result import document


def of_endpoint(asked: Asked) -> Answer:
    """The result of the analysis of the endpoint."""
    return of(asked, asked.of.analysis or "")


def of(asked: Asked, name: str) -> Answer:
    """The result of an analysis."""
    result = asked.site.result(name, asked.filters, filters.others(asked.query))
    return Answer(document=document(result), tables=result.tables)
