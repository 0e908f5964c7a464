"""`aiperf expectations`: check for regressions against stored results."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field, frozen

from aiperf_core import units
from aiperf_core.cli.bundles import ADDRESS, PATTERN_OR_ADDRESS, Seals, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.goals import declarations
from aiperf_core.cli.measuring import device_option, quiet_option, seconds_option, targets_option, tier_option, together
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.sweep import base_name
from aiperf_core.targets import GOALS, InstalledTarget, TargetFilter

if TYPE_CHECKING:
    from aiperf_core.described import Described
    from aiperf_core.report.result import Result
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import TargetResult
    from aiperf_core.stats.expectations import Change, GoalFigure, Page, Source
    from aiperf_core.stats.threshold import Judgement


def _speedup(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"--min-speedup takes a number above 0, such as 1.05; got {value:g}.")
    return value


def _options(about: str, default: float | None = None, *, patterns: bool = False) -> Callable[[Any], Any]:
    """The options of the three subcommands; `about` is the help of `--min-speedup`."""
    kind = PATTERN_OR_ADDRESS if patterns else ADDRESS
    metavar = "PATTERN|BUNDLE[:TARGET...]" if patterns else "BUNDLE[:TARGET[:IMPLEMENTATION]]"
    return together(
        click.argument("what", type=kind, metavar=metavar),
        targets_option,
        click.option("--hardware", metavar="KEY", help="Another kind of machine. [default: that of the run]"),
        click.option("--goal", type=click.Choice(GOALS), help="Only targets with this goal."),
        click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="Use this expectations file."),
        click.option(
            "--min-speedup",
            type=float,
            default=default,
            show_default=default is not None,
            callback=_speedup,
            metavar="RATIO",
            help=about,
        ),
        color_option,
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


@frozen
class _Choice:
    """The results and the expectations files that the options of a command choose."""

    plugins: Plugins
    only: TargetFilter
    hardware: str | None
    goal: str | None
    file: Path | None
    min_speedup: float | None

    @property
    def least(self) -> float:
        """The least speedup of a threshold; 0 where none is given."""
        return self.min_speedup or 0.0

    def groups(self, address: "Address", omitted: "list[TargetResult] | None" = None) -> Iterator[_Group]:
        """The bundle's results by expectations file.

        Without `--file`, targets that are not installed are printed, and put into `omitted`.
        """
        from aiperf_core.results.hardware import checked_key, hardware_key
        from aiperf_core.stats import expectations as rules

        machine, groups = address.bundle.manifest.machine, dict[tuple[Path, str], _Group]()
        installed = {one.name: one for one in self.plugins.targets}
        results = address.outlines()
        kept = self._kept([result.target for result in results])
        for result in results:
            if result.target not in kept or self.goal not in (None, result.goal):
                continue
            params = result.problem.params
            key = checked_key(self.hardware) if self.hardware else hardware_key(machine, result.device, params)
            source = rules.source_of(installed[result.target]) if result.target in installed else None
            if source is None and self.file is None:
                click.echo(f"{words(result.target)} is not installed; give its expectations with --file", err=True)
                if omitted is not None:
                    omitted.append(result)
                continue
            path = self.file or rules.place(source, key)  # type: ignore[arg-type]  # without `file` there is a source
            group = groups.setdefault((path, key), _Group(path, key))
            group.results.append(result)
            if source is not None:
                group.sources[result.target] = source
        yield from groups.values()

    def _kept(self, names: list[str]) -> set[str]:
        """The names of a bundle's results that the filter keeps. A target that is not installed has only its name."""
        known = {one.name for one in self.plugins.targets}
        missing = [InstalledTarget(name, "") for name in {base_name(name) for name in names} - known]
        targets = {one.name for one in self.only.kept([*self.plugins.targets, *missing])}
        kept = {name for name in names if base_name(name) in targets}
        if names and not kept:
            raise UsageError(f"{self.only} leaves none of the targets of the bundle: {', '.join(map(words, names))}")
        return kept


@expectations.command("check")
@_with_threshold
@click.option("--require", is_flag=True, help="Fail if a variant, or the hardware, has no expectation.")
@result_file_option
@verified("what")
@click.pass_obj
def check(plugins: Plugins, /, what: "Address", require: bool, out: Path | None, **options: Any) -> ExitCode:
    """Check a run against its expectations. Exit code 4: a row is below.

    Variants without an expectation pass: of unknown hardware, of another size, or not stored yet. They are counted.
    With --require the exit code is 4 for them too. Variants that are stored without a threshold always pass.

    \b
    Examples:
      aiperf expectations check latest --require
    """
    from aiperf_core.report.expectations import UNEXPECTED

    result, rows, unknown = _report(_Choice(plugins, **options), what, out)
    if require and (unknown or not rows or any(row.outcome in UNEXPECTED for row in rows)):
        click.echo("--require: every variant needs an expectation. To store them: aiperf expectations write", err=True)
        return ExitCode.BELOW_EXPECTATION
    return result.exit_code


@expectations.command("report")
@_with_threshold
@result_file_option
@verified("what")
@click.pass_obj
def report(plugins: Plugins, /, what: "Address", out: Path | None, **options: Any) -> None:
    """Show a run beside its expectations. The exit code is always 0.

    \b
    Examples:
      aiperf expectations report latest
    """
    _report(_Choice(plugins, **options), what, out)


@expectations.command("write")
@_options("Rows whose interval is not above this get no threshold.", default=1.05, patterns=True)
@click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
@device_option("Device to measure on", "the GPU, if the target supports it")
@tier_option("Tier to measure in.", "standard")
@seconds_option("--budget", "Sampling time per target at first. [default: 3, 30 or 120 by tier]")
@quiet_option
@click.pass_obj
def write(
    plugins: Plugins,
    /,
    what: "Address | str",
    dry_run: bool,
    device: str | None,
    tier: str,
    budget: float | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Store the results of a run as expectations, and show the changes.

    A PATTERN, as for 'aiperf run', is measured first: with twice the sampling time, again and again up to 8 times,
    while an interval is too wide. Rows without a conclusive result are listed with the reason, and keep their old
    expectation. Exit code 5: there are such rows; 1 or 3: as 'aiperf run'.

    From a BUNDLE, nothing is written if a row is INVALID, UNTRUSTED, INCONCLUSIVE or FAILED, or if its interval is too
    wide. Nothing is written either if the bundle is incomplete or fails its recheck, or if the
    sources are not in git or differ from the measured sources.

    \b
    Examples:
      aiperf expectations write ch07 --dry-run
      aiperf expectations write latest
    """
    from aiperf_core.stats import expectations as rules

    choice = _Choice(plugins, **options)
    if not isinstance(what, str):
        with Seals([what]) as seals:
            rules.refuse_rows([result for group in choice.groups(what) for result in group.results], choice.least)
            _write(choice, [what], dry_run)
        return seals.code or ExitCode.OK
    from aiperf_core.cli.narrowing import Narrowing

    measured = Narrowing(plugins, choice.only, device, tier, budget, choice.least, quiet=quiet)
    code = measured.run(what, choice.goal)
    if measured.addresses:
        _write(choice, measured.addresses, dry_run)
    return code


def _write(choice: _Choice, addresses: "list[Address]", dry_run: bool) -> None:
    """Put the rows of bundles into their files. Every file is checked and made before the first is written."""
    from aiperf_core.stats import expectations as rules

    befores: dict[Path, Page] = {}
    afters: dict[Path, Page] = {}
    changes: dict[Path, tuple[_Group, dict[str, Change]]] = {}
    checked = set()
    wanted = {target for address in addresses for target in address.targets}
    described, unusable = declarations(choice.plugins, [one for one in choice.plugins.targets if one.name in wanted])
    for reason in unusable:
        click.echo(f"no figures of goals are stored: {words(reason)}", err=True)
    declared = {target.name: one for target, one in described}
    for address in addresses:
        manifest = address.bundle.manifest
        groups = list(choice.groups(address))
        for group in groups:
            rules.refuse_parts(address.bundle, group.results)
            for source in group.sources.values():
                rules.refuse_source(source, manifest)
        if address.bundle.path not in checked:
            rules.refuse_bundle(address.bundle, manifest)
            checked.add(address.bundle.path)
        for group in groups:
            sources = {
                result.target: manifest.files.get(group.sources[result.target].module)
                if result.target in group.sources
                else rules.module_hash(manifest, result.target)
                for result in group.results
            }
            before = befores[group.path] if group.path in befores else _page(group)
            befores[group.path] = before
            goals = {
                name: figures
                for target in group.sources
                if target in declared
                for name, figures in _goal_figures(address.bundle, target, declared[target]).items()
            }
            page = afters.get(group.path, before)
            after, made = rules.update(page, address, group.results, sources, choice.least, goals)
            afters[group.path] = rules.compacted(after)
            # Of a row that was measured again, the last change counts.
            changes.setdefault(group.path, (group, {}))[1].update({one.name: one for one in made})
    for path, after in afters.items():
        if not dry_run and after != befores[path]:
            rules.write(path, after)
        group, found_changes = changes[path]
        _print_changes(group, list(found_changes.values()), dry_run)


def _goal_figures(bundle: "Bundle", target: str, declared: "Described") -> dict[str, list["GoalFigure"]]:
    """The figures of a target's goals in a bundle, by `target:implementation`."""
    from aiperf_core.stats.expectations import GoalFigure
    from aiperf_core.stats.goals import NoFigureError, figure_of

    if not declared.goals:
        return {}
    result, found = bundle.target(target), dict[str, list[GoalFigure]]()
    for goal in declared.goals:
        try:
            reached = figure_of(goal, declared.sizes_of(goal), result, bundle.manifest.ceilings.get(goal.device))
        except NoFigureError:
            continue
        of = reached.figure
        kept = GoalFigure(of=goal.of, value=of.value, low=of.low, high=of.high)
        found.setdefault(f"{target}:{reached.implementation}", []).append(kept)
    return found


def _report(choice: _Choice, what: "Address", out: Path | None) -> tuple["Result", list["Judgement"], int]:
    """Print the rows beside their expectations. Also the judgements, and the number of variants without a file."""
    from aiperf_core.cli import result_screen
    from aiperf_core.report.expectations import JudgedPage, view
    from aiperf_core.stats import expectations as rules

    pages: list[JudgedPage] = []
    unknown: list[TargetResult] = []
    for group in choice.groups(what, unknown):
        page, judgements = rules.read(group.path), None
        if page is None:
            unknown += group.results
        else:
            _belongs(group, page)
            judgements = [row for result in group.results for row in rules.check(result, page, choice.min_speedup)]
        pages.append(JudgedPage(group.key, group.path, judgements))
    without = sum(row.role == "variant" for result in unknown for row in result.rows)
    result = view(str(what), pages, without)
    write_result(result, out)
    result_screen.show(result)
    return result, [judgement for page in pages for judgement in page.judgements or ()], without


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
        return words(f"{'threshold removed' if change.before is not None else 'no threshold'}: {change.note}")
    if change.note:
        return words(f"not changed: {change.note}")
    if change.before is None:
        return "new"
    if change.after == change.before:
        return "the same"
    return "RAISED" if change.after > change.before else "LOWERED"
