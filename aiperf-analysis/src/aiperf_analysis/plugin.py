"""What this package contributes: commands, the analyses behind `aiperf analyze`, schemas, and an observer of runs."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from aiperf_core.analysis import Analysis
from aiperf_core.commands import Command
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from aiperf_analysis.live.observer import LiveObserver
    from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted

LOOK, CHECK, HERE = "Look at results", "Check", "This installation"
# Name, summary, and heading of `aiperf --help`; each is the function of its name in `aiperf_analysis.cli.NAME`.
COMMANDS = (
    ("analyze", "Analyze stored results: ranks, fronts, scaling, power, cost.", LOOK),
    ("tui", "Look at results in the terminal, with keys or a numbered menu.", LOOK),
    ("explain", "Explain a term, or results by rules with evidence.", LOOK),
    ("dashboard", "Show results as pages, and answer by a REST API.", LOOK),
    ("demo", "Measure small targets on the CPU, and show them as pages.", LOOK),
    ("db", "Keep the figures of many bundles in a database.", LOOK),
    ("history", "Find changes in the results of other benchmark tools.", LOOK),
    ("power", "Analyze energy; watch the power of a command.", LOOK),
    ("ci", "Run a suite continuously, and stop at a confirmed regression.", CHECK),
    ("checklist", "List recommendations, their proofs, and probes of this machine.", CHECK),
    ("probe", "Describe this machine and its peak rates as one document.", HERE),
    ("triage", "Collect machine, settings and last results in one archive.", HERE),
)
# Those that `aiperf --help` shows.
EVERYDAY = ("explain", "dashboard")
# Name and summary; each is `analyze` in `aiperf_analysis.analyses.NAME`.
ANALYSES = (
    ("overview", "Count verdicts and gains of all targets."),
    ("leaderboard", "Rank results that meet the leaderboard rules."),
    ("pareto", "Best trade-offs (Pareto front)."),
    ("tradeoff", "Compare what is paid in time, memory and quality."),
    ("recommend", "Name mechanisms for a use case, with their evidence."),
    ("improvements", "Show the measured gains of each mechanism."),
    ("coverage", "Find targets without a run, energy, a profile or a cost."),
    ("targets", "Compare results with a file of performance targets."),
    ("history", "Find steps and drift over runs, and judge the newest."),
    ("stacking", "Tell which mechanisms multiply, overlap or conflict."),
    ("scaling", "Fit times over ranks or sizes, and find crossovers."),
    ("whatif", "Tell what fits limits, and predict times on other machines."),
    ("power", "Compare energy per call, operation, byte and token."),
    ("cost", "Price calls, tokens and runs; break-even rates."),
    ("context", "Describe results for a language model."),
)
# Analyses that are commands of their own too. `aiperf power` without a subcommand is one of them.
ALIASES = ("whatif", "stacking", "scaling", "cost")


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    for name, summary, section in COMMANDS:
        yield Command(name, summary, f"aiperf_analysis.cli.{name}:{name}", section=section, everyday=name in EVERYDAY)
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
    for name, summary in ANALYSES:
        yield Analysis(name, summary, f"aiperf_analysis.analyses.{name}:analyze")


@hookimpl
def aiperf_schemas() -> Iterable[DocumentSchema]:
    """Contribute the schemas of what commands read and print."""
    yield DocumentSchema("ci-suite", "the suite of aiperf ci run", "aiperf_analysis:schemas/ci-suite-1.json")
    yield DocumentSchema("analysis-result", "printed by aiperf analyze --json", "aiperf_analysis:schemas/result-1.json")


@cache
def _observer() -> "LiveObserver":
    """The observer of this process's runs; imported with the first run."""
    from aiperf_analysis.live.observer import LiveObserver

    return LiveObserver()


@hookimpl
def aiperf_run_started(run: "RunStarted") -> None:
    """Write the state of the run to a file of its own."""
    _observer().run_started(run)


@hookimpl
def aiperf_target_started(target: "TargetStarted") -> None:
    """Write that a target starts."""
    _observer().target_started(target)


@hookimpl
def aiperf_progress(progress: "Progress") -> None:
    """Write how far the target is."""
    _observer().progress(progress)


@hookimpl
def aiperf_target_finished(result: "TargetFinished") -> None:
    """Write that a target is done."""
    _observer().target_finished(result)


@hookimpl
def aiperf_run_finished(bundle: "RunFinished") -> None:
    """Write the last line."""
    _observer().run_finished(bundle)
