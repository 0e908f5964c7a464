"""`aiperf expectations`: check for regressions against stored results."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field

from aiperf_core import units
from aiperf_core.cli.measuring import together
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.targets import GOALS

if TYPE_CHECKING:
    from aiperf_core.results.address import Address
    from aiperf_core.results.models import TargetResult
    from aiperf_core.stats.expectations import Change, Checked, Page, Source


def _speedup(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"--min-speedup takes a number above 0, such as 1.05; got {value:g}.")
    return value


def _options(about: str, default: float | None = None) -> Callable[[Any], Any]:
    """The options of the three subcommands; `about` is the help of `--min-speedup`."""
    return together(
        click.argument("what", metavar="BUNDLE[:TARGET[:IMPLEMENTATION]]"),
        click.option("--hardware", metavar="KEY", help="Another kind of machine. [default: the bundle's]"),
        click.option("--goal", type=click.Choice(GOALS), help="Only targets with this goal."),
        click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="Use this expectations file."),
        click.option(
            "--min-speedup",
            type=float,
            default=default,
            show_default=default is not None,
            callback=_speedup,
            help=about,
        ),
    )


_with_threshold = _options("Lower bound of every threshold.")


@click.group("expectations")
def expectations() -> None:
    """Check for regressions against stored results, for each kind of machine.

    A package stores its expectations beside its sources, in expectations/KEY.json.
    """


@define
class _Group:
    """The results that share an expectations file, with the sources of the installed targets."""

    path: Path
    key: str
    results: list["TargetResult"] = field(factory=list)
    sources: dict[str, "Source"] = field(factory=dict)


@expectations.command("check")
@_with_threshold
@click.pass_obj
def check(plugins: Plugins, /, **asked: Any) -> ExitCode:
    """Check a run against its expectations. Exit code 4: a row is below. Unknown hardware passes with a message."""
    rows = _report(plugins, **asked)
    below = [row for row in rows if row.outcome == "BELOW"]
    known = [row for row in rows if row.at_least is not None]
    click.echo(f"{len(below)} of {len(known)} below expectation" if known else "these rows have no expectations")
    return ExitCode.BELOW_EXPECTATION if below else ExitCode.OK


@expectations.command("report")
@_with_threshold
@click.pass_obj
def report(plugins: Plugins, /, **asked: Any) -> None:
    """Show a run beside its expectations. The exit code is always 0."""
    _report(plugins, **asked)


@expectations.command("update")
@_options("Rows whose interval is not above this get no expectation.", default=1.05)
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@click.pass_obj
def update(
    plugins: Plugins,
    what: str,
    hardware: str | None,
    goal: str | None,
    file: Path | None,
    min_speedup: float,
    dry_run: bool,
) -> None:
    """Store the results of a run as expectations, and show the changes.

    Writes nothing if a row is INVALID, UNTRUSTED, INCONCLUSIVE or FAILED, if the bundle is incomplete or fails its
    recheck, or if the sources are not in git or differ from the measured sources.
    """
    from aiperf_core.results import address
    from aiperf_core.stats import expectations as rules

    found = address.find(what)
    manifest = found.bundle.manifest
    groups = list(_groups(plugins, found, hardware, goal, file))
    rules.refuse_rows([result for group in groups for result in group.results])
    for group in groups:
        for source in group.sources.values():
            rules.refuse_source(source, manifest)
    rules.refuse_bundle(found.bundle, manifest)
    pages = []
    for group in groups:
        page = _page(group)
        sources = {
            one.target: manifest.files.get(group.sources[one.target].module)
            if one.target in group.sources
            else rules.module_hash(manifest, one.target)
            for one in group.results
        }
        pages.append((group, page, *rules.update(page, found, group.results, sources, min_speedup)))
    for group, before, after, changes in pages:
        if not dry_run and after != before:
            rules.write(group.path, after)
        _print_changes(group, changes, dry_run)


def _report(
    plugins: Plugins, what: str, hardware: str | None, goal: str | None, file: Path | None, min_speedup: float | None
) -> list["Checked"]:
    from aiperf_core.results import address
    from aiperf_core.stats import expectations as rules

    rows = []
    for group in _groups(plugins, address.find(what), hardware, goal, file):
        page = rules.read(group.path)
        if page is None:
            click.echo(
                f"no expectations for '{group.key}' ({words(str(group.path))}). "
                "To store them: aiperf expectations update"
            )
            continue
        _belongs(group, page)
        found = [row for result in group.results for row in rules.check(result, page, min_speedup)]
        click.echo(f"{group.key}  {words(str(group.path))}")
        _print_rows(found)
        rows += found
    return rows


def _groups(
    plugins: Plugins, address: "Address", hardware: str | None, goal: str | None, file: Path | None
) -> Iterator[_Group]:
    """The bundle's results by expectations file. Without `--file`, prints and omits targets that are not installed."""
    from aiperf_core.stats import expectations as rules

    machine, groups = address.bundle.manifest.machine, dict[tuple[Path, str], _Group]()
    installed = {one.name: one for one in plugins.targets}
    for result in address.outlines():
        if goal is not None and result.goal != goal:
            continue
        key = (
            rules.checked_key(hardware)
            if hardware
            else rules.hardware_key(machine, result.device, result.problem.params)
        )
        source = rules.source_of(installed[result.target]) if result.target in installed else None
        if source is None and file is None:
            click.echo(f"{words(result.target)} is not installed; give its expectations with --file", err=True)
            continue
        path = file or rules.place(source, key)  # type: ignore[arg-type]  # without `file` there is a source
        group = groups.setdefault((path, key), _Group(path, key))
        group.results.append(result)
        if source is not None:
            group.sources[result.target] = source
    yield from groups.values()


def _page(group: _Group) -> "Page":
    from aiperf_core.stats.expectations import Page, read

    page = read(group.path) or Page(group.key)
    _belongs(group, page)
    return page


def _belongs(group: _Group, page: "Page") -> None:
    if page.hardware != group.key:
        raise UsageError(
            f"'{group.path}' is for '{page.hardware}'; these results are from '{group.key}'. "
            f"To use it anyway: --hardware {page.hardware}"
        )


def _print_rows(rows: list["Checked"]) -> None:
    lines = []
    for row in rows:
        shown = units.ratio_estimate(row.found) if row.found else units.Shown("", "")
        least = "" if row.at_least is None else f"{units.number(row.at_least, 4)}x"
        lines.append((words(row.name), least, shown.value, shown.interval, row.outcome, words(row.reason or "")))
    if lines:
        print_table(("implementation", "at least", "found", "95 % interval", "outcome", ""), lines)


def _print_changes(group: _Group, changes: list["Change"], dry_run: bool) -> None:
    click.echo(f"{group.key}  {words(str(group.path))}{'  (not written)' if dry_run else ''}")
    rows = [(words(one.name), _least(one.before), _least(one.after), _what(one)) for one in changes]
    if rows:
        print_table(("implementation", "before", "after", "change"), rows)
    else:
        click.echo("no row can have an expectation")


def _least(value: float | None) -> str:
    return "-" if value is None else f"{units.number(value, 4)}x"


def _what(change: "Change") -> str:
    if change.after is None:
        return f"{'removed' if change.before is not None else 'left out'}: {change.note}"
    if change.before is None:
        return "new"
    if change.after == change.before:
        return "the same"
    return "RAISED" if change.after > change.before else "LOWERED"
