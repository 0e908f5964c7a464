"""`aiperf load`: the group of its subcommands."""

import click

from aiperf_core.cli.lazy_group import LazyGroup

# The subcommands in the order of use, and their files.
FILES = {"run": "run", "sweep": "sweep", "show": "show", "import": "import_results", "serve": "serve"}


@click.command("load", cls=LazyGroup, modules={name: f"aiperf_load.cli.{file}" for name, file in FILES.items()})
def load() -> None:
    """Load an inference server, and measure latency and goodput.

    Requests arrive at times drawn before the start. Latency counts from these times, so that a slow server cannot delay
    the load.
    """
