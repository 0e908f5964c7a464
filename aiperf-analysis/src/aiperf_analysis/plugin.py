"""What this package contributes: commands, and the analyses behind `aiperf analyze`."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from aiperf_core.analysis import Analysis
from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

LOOK = "Look at results"

# Analyses that are commands of their own too.
ALIASES = ("whatif", "stacking", "power", "cost", "scaling")


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    yield Command(
        "analyze", "Analyze stored results: leaderboards, Pareto fronts, scaling, power, cost and more",
        "aiperf_analysis.cli.analyze:analyze", section=LOOK,
    )  # fmt: skip
    for one in aiperf_analyses():
        if one.name in ALIASES:
            yield Command(one.name, one.summary, _alias(one), section=LOOK)


def _alias(record: Analysis) -> "Callable[[], click.Command]":
    """What makes the command `aiperf NAME`, which is `aiperf analyze NAME`."""

    def command() -> "click.Command":
        from aiperf_analysis.cli.analyze import command_of

        return command_of(record)

    return command


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses."""
    for name, summary in (
        ("overview", "Count verdicts and gains of all targets"),
        ("leaderboard", "Rank the rows that keep the rules of an entry"),
        ("pareto", "Find the rows that no other row beats"),
        ("tradeoff", "Compare what is paid in time, memory and quality"),
        ("recommend", "Name mechanisms for a use case, with their evidence"),
        ("improvements", "Show the measured gains of each mechanism"),
        ("coverage", "Find targets without a run, energy, a profile or a cost"),
        ("targets", "Hold results to a file of performance targets"),
    ):
        yield Analysis(name, summary, f"aiperf_analysis.analyses.{name}:analyze")
