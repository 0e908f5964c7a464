"""The commands `aiperf prices` and `aiperf calc`."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    yield Command("prices", "Show, check and add prices of machines.", "aiperf_calc.cli.prices:prices",
                  section="Look at results")  # fmt: skip
    yield Command("calc", "Size caches, models, GPUs, replicas and costs by formulas.", "aiperf_calc.cli.calc:calc",
                  section="Look at results")  # fmt: skip
