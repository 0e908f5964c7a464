"""The contents page of the labs."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order. The tag `lab-NAME` says which lab a target belongs to."""
    yield from ()


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the list of ladders, and the coverage of techniques."""
    yield Command("labs", "List the labs, and show their ladders.", "aiperf_labs.cli:labs")
    yield Command("techniques", "Show which techniques targets have proven.", "aiperf_labs.cli:techniques")
