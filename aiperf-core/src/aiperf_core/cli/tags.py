"""`aiperf tags`: the tags of the installed benchmarks."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from aiperf_core.cli.list import EMPTY
from aiperf_core.cli.measuring import echo_json, installed, json_option, targets_option, warn_of_skipped
from aiperf_core.cli.tables import print_table
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, TargetFilter

# As many tags that differ in a number at the end are one row.
FAMILY = 10


@click.command("tags")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@json_option("a JSON object, with the number of targets of each tag")
@click.pass_obj
def tags(plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, as_json: bool) -> None:
    """List the tags of targets, each with its number of targets.

    A PATTERN is as in 'aiperf list'. To select by a tag: aiperf list tag:NAME. [default: all targets] Many
    tags that differ in a number are one row; --json has each of them.
    """
    warn_of_skipped(plugins)
    targets = installed(plugins, patterns, only)
    counts = dict(sorted(Counter(tag for target in targets for tag in target.tags).items(), key=_numbered))
    if as_json:
        echo_json(counts)
    elif targets:
        print_table(("tag", "targets"), list(_folded(targets, counts)))
    else:
        click.echo(EMPTY)


def _folded(targets: Sequence[InstalledTarget], counts: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The tags with their numbers of targets. Tags that differ in a number at the end are one row."""
    for stem, group in groupby(counts, key=lambda tag: re.sub(r"\d+$", "", tag)):
        tags = list(group)
        if len(tags) < FAMILY:
            yield from ((tag, counts[tag]) for tag in tags)
        else:
            yield f"{stem}N ({len(tags)} tags)", sum(not {*tags}.isdisjoint(one.tags) for one in targets)


def _numbered(item: tuple[str, int]) -> list[tuple[int, str]]:
    """The order of tags: by name, and of names that differ in a number by that number."""
    return [(int(part or 0) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", item[0])]
