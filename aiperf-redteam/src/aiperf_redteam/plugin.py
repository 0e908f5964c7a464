"""The contents page: the command `aiperf selftest`, and the attack corpus that it tries."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.validity.cases import Case, Recorded
from aiperf_redteam import catalogue


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the command that proves the guards by the attacks of all plugins."""
    yield Command(
        "selftest",
        "Attack the harness, and show which attacks it detects.",
        "aiperf_redteam.cli.selftest:selftest",
        section="Check",
    )


@hookimpl
def aiperf_attacks() -> Iterable[Case]:
    """Contribute the attacks and honest look-alikes, category by category."""
    return catalogue.cases()


@hookimpl
def aiperf_recordings() -> Iterable[Recorded]:
    """Contribute evidence of issues that not every machine can commit."""
    return catalogue.recorded()
