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
        "calc", "Size caches, models, GPUs, replicas and costs by formulas", "aiperf_analysis.cli.calc:calc",
        section=LOOK,
    )  # fmt: skip
    yield Command(
        "power", "Analyze energy; watch the power of a command", "aiperf_analysis.cli.power:power", section=LOOK
    )
    yield Command("prices", "Show, check and add prices of machines", "aiperf_analysis.cli.prices:prices", section=LOOK)
    yield Command(
        "probe", "Describe this machine and its peak rates as one document", "aiperf_analysis.cli.probe:probe",
        section=LOOK,
    )  # fmt: skip


@hookimpl
def aiperf_analyses() -> Iterable[Analysis]:
    """Contribute the analyses."""
    yield Analysis("overview", "Count verdicts and gains of all targets", "aiperf_analysis.analyses.overview:analyze")
    yield Analysis("cost", "Price calls, tokens and runs; break-even rates", "aiperf_analysis.analyses.cost:analyze")
    yield Analysis(
        "power", "Compare energy per call, operation, byte and token", "aiperf_analysis.analyses.power:analyze"
    )
