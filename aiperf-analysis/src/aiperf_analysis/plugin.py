"""What this package contributes: commands, and the analyses behind `aiperf analyze`."""

from collections.abc import Iterable

from aiperf_core.analysis import Analysis
from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl

LOOK = "Look at results"
CHECK = "Check"


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    yield Command(
        "analyze", "Analyze stored results: leaderboards, Pareto fronts, scaling, power, cost and more",
        "aiperf_analysis.cli.analyze:analyze", section=LOOK,
    )  # fmt: skip
    yield Command(
        "ci", "Run a suite continuously, and stop at a confirmed regression",
        "aiperf_analysis.cli.ci:ci", section=CHECK,
    )  # fmt: skip


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses."""
    yield Analysis("overview", "Count verdicts and gains of all targets", "aiperf_analysis.analyses.overview:analyze")
    yield Analysis(
        "history", "Find steps and drift over runs, and judge the newest", "aiperf_analysis.analyses.history:analyze"
    )
