"""`aiperf tags`: the tags of the installed benchmarks."""

from collections import Counter

import click

from aiperf_core.cli.list import EMPTY
from aiperf_core.cli.measuring import echo_json, installed, json_option, targets_option, warn_of_skipped
from aiperf_core.cli.tables import print_table
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter


@click.command("tags")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@json_option("a JSON object, with the number of targets of each tag")
@click.pass_obj
def tags(plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, as_json: bool) -> None:
    """List the tags of targets, each with its number of targets.

    A PATTERN is as in 'aiperf list'. To select by a tag: aiperf list tag:NAME. [default: all targets]
    """
    warn_of_skipped(plugins)
    targets = installed(plugins, patterns, only)
    counts = dict(sorted(Counter(tag for target in targets for tag in target.tags).items()))
    if as_json:
        echo_json(counts)
    elif targets:
        print_table(("TAG", "TARGETS"), list(counts.items()))
    else:
        click.echo(EMPTY)
