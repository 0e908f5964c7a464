"""`aiperf fleet`: the group of its subcommands."""

import click

from aiperf_core.cli.lazy_group import LazyGroup

# In the order of use.
NAMES = ("init", "run", "status", "resume", "collect", "cancel")


@click.command("fleet", cls=LazyGroup, modules={name: f"aiperf_fleet.cli.{name}" for name in NAMES})
def fleet() -> None:
    """Run a suite on many machines.

    Each target is one run on one whole machine. Its sealed bundle is copied out as soon as it is finished, and a task
    whose machine is lost starts on another one.
    """
