"""What this package contributes: commands, and the analyses behind `aiperf analyze`."""

from collections.abc import Iterable

from aiperf_core.analysis import Analysis
from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl

LOOK = "Look at results"


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    yield Command(
        "analyze", "Analyze stored results: leaderboards, Pareto fronts, scaling, power, cost and more",
        "aiperf_analysis.cli.analyze:analyze", section=LOOK,
    )  # fmt: skip


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses."""
    yield Analysis(
        "trace",
        "Break down the time of traces: work, waits, ranks, critical path",
        "aiperf_analysis.analyses.trace:analyze",
    )
    yield Analysis("trace-diff", "Compare two traces piece by piece", "aiperf_analysis.analyses.trace_diff:analyze")
    yield Analysis("overview", "Count verdicts and gains of all targets", "aiperf_analysis.analyses.overview:analyze")
