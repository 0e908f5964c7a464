"""What comes with aiperf, contributed through the hooks that every plugin has."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.redteam import catalogue
from aiperf_core.redteam.cases import Case
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import ISSUES


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the built-in commands, in the order in which a newcomer needs them."""
    yield Command("list", "List the benchmarks that are installed.", "aiperf_core.cli.list:list_targets")
    yield Command("run", "Run benchmarks and judge their results.", "aiperf_core.cli.run:run")
    yield Command("show", "Show the results of a run.", "aiperf_core.cli.show:show")
    yield Command("results", "List and remove what runs left behind.", "aiperf_core.cli.results:results")
    yield Command("compare", "Compare two runs, or two implementations.", "aiperf_core.cli.compare:compare")
    yield Command("recheck", "Recompute a run's verdicts from its samples.", "aiperf_core.cli.recheck:recheck")
    yield Command("expectations", "Hold runs to what was measured before.", "aiperf_core.cli.expectations:expectations")
    yield Command("export", "Write results for other programs.", "aiperf_core.cli.export:export")
    yield Command("ceilings", "Show what this machine reaches at its best.", "aiperf_core.cli.ceilings:ceilings")
    yield Command("roofline", "Draw results on the machine's roofline.", "aiperf_core.cli.roofline:roofline")
    yield Command("judge", "Judge code that nobody trusts.", "aiperf_core.cli.judge:judge")
    yield Command("lint", "Try to fool the judges of benchmarks.", "aiperf_core.cli.lint:lint")
    yield Command(
        "validity",
        "List what can make a number untrue, and what guards against it.",
        "aiperf_core.cli.validity:validity",
    )
    yield Command(
        "selftest",
        "Attack this harness, and show which attacks it catches here.",
        "aiperf_core.cli.selftest:selftest",
    )
    yield Command("kernels", "Compile every kernel of the installed benchmarks.", "aiperf_core.cli.kernels:kernels")
    yield Command("new", "Make a package of benchmarks of your own.", "aiperf_core.cli.new:new")
    yield Command(
        "plugins", "List the plugins, and those set aside with the reason.", "aiperf_core.cli.plugins:plugins"
    )
    yield Command("doctor", "Say what this machine can run, and what it lacks.", "aiperf_core.cli.doctor:doctor")


@hookimpl
def aiperf_issues() -> Iterable[Issue]:
    """Contribute the registry's issues, category by category."""
    return ISSUES


@hookimpl
def aiperf_attacks() -> Iterable[Case]:
    """Contribute the attacks and look-alikes that prove the registry."""
    return catalogue.cases()
