"""The commands of this package. Nothing heavy is imported here: every command of aiperf loads this module."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the commands."""
    yield Command("learn", "Learn from a lesson: predict its result, measure it, compare.",
                  "aiperf_learn.cli.learn:learn", section="Measure", everyday=True)  # fmt: skip
    yield Command("page", "Write the targets of a package as a page to publish.", "aiperf_learn.cli.page:page",
                  section="Write benchmarks")  # fmt: skip
    yield Command("surprise", "Show measurements that fool usual tools, and why.", "aiperf_learn.cli.surprise:surprise",
                  section="Measure")  # fmt: skip
