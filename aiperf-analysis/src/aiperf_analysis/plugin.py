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
    yield Command(
        "explain", "Explain results by rules with evidence, and say what to try next",
        "aiperf_analysis.cli.explain:explain", section=LOOK,
    )  # fmt: skip
    yield Command(
        "checklist", "List recommendations, what proves them, and probes of this machine",
        "aiperf_analysis.cli.checklist:checklist", section=LOOK,
    )  # fmt: skip
    yield Command(
        "triage", "Collect machine, settings and last results in one archive, without secrets",
        "aiperf_analysis.cli.triage:triage", section="This installation",
    )  # fmt: skip


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses."""
    yield Analysis("overview", "Count verdicts and gains of all targets", "aiperf_analysis.analyses.overview:analyze")
    yield Analysis("context", "Describe results for a language model", "aiperf_analysis.analyses.context:analyze")
