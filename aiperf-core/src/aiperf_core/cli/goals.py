"""`aiperf goals`: the figures that targets are to reach, and those that they reached."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from aiperf_core.cli.bundles import IN, PATTERN_OR_ADDRESS, Seals, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option, scratch_planner, targets_option, warn_of_skipped
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.errors import ExitCode
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.described import Described
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.listing import Run
    from aiperf_core.stats.goal_standings import JudgedGoal, Standings
    from aiperf_core.targets import InstalledTarget


@click.command("goals")
@click.argument("what", type=PATTERN_OR_ADDRESS, nargs=-1, metavar="[PATTERN_OR_BUNDLE]...")
@targets_option
@IN
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE", help="Write a page in Markdown to this file.")
@color_option
@json_option()
@result_file_option
@verified("what", as_seals=True)
@click.pass_obj
def goals(
    plugins: Plugins,
    what: "tuple[Address | str, ...]",
    only: TargetFilter,
    folder: Path,
    page: Path | None,
    as_json: bool,
    out: Path | None,
    seals: Seals,
) -> ExitCode:
    """Show the goals of targets, and what was measured of them.

    The latest bundle with a goal's figure counts; the given bundles replace those of the folder. Without a bundle the
    expectations files of the packages count. Exit code 1: a target has no goal, or cannot be used. [default: all
    targets]

    \b
    Examples:
      aiperf goals ch07
      aiperf goals latest
    """
    from aiperf_core.cli import result_screen
    from aiperf_core.report import files
    from aiperf_core.report.goals import view
    from aiperf_core.results.address import Address
    from aiperf_core.stats.goal_standings import standings

    bundles = [one.bundle for one in what if not isinstance(one, str)]
    patterns = [one for one in what if isinstance(one, str)]
    selections = plugins.select(patterns or ["all"], only)
    warn_of_skipped(plugins)
    runs, problems = _runs(folder, bundles)
    if not bundles:
        selected = {one.target.name for one in selections}
        seals.add(Address(run.bundle, name) for run in runs for name in run.targets if name in selected)
    described, unusable = declarations(plugins, [one.target for one in selections])
    found = standings(described, runs)
    found.unreadable.extend(problems)
    result = view(found)
    write_result(result, out)
    if page is not None:
        files.write_text(files.markdown(result), page, "--page")
    if as_json:
        from aiperf_core.cli.screen import consoles
        from aiperf_core.results import jsontext

        consoles()[0].write(jsontext.dumps(_document(found, unusable)))
    elif page is None:
        result_screen.show(result)
    for line in (*found.unreadable, *unusable):
        click.echo(f"aiperf: {words(line)}", err=True)
    for name, file in found.without.items():
        click.echo(f"aiperf: {words(name)} has no goal; declare it with bench.reach: {words(file)}", err=True)
    return ExitCode.FAILED if found.without or unusable else ExitCode.OK


def _runs(folder: Path, given: "list[Bundle]") -> "tuple[list[Run], list[str]]":
    """The given bundles, or those of the folder: the runs, newest first, and why others cannot be read."""
    from aiperf_core.results.listing import Run, bundles, listed

    found = [listed(bundle.path) for bundle in given] if given else bundles(folder)
    runs = [one for one in found if isinstance(one, Run)]
    problems = [one.problem for one in found if not isinstance(one, Run)]
    return sorted(runs, key=lambda run: run.created, reverse=True), problems


def declarations(
    plugins: Plugins, targets: "list[InstalledTarget]"
) -> "tuple[list[tuple[InstalledTarget, Described]], list[str]]":
    """The targets with their declarations, and the reasons why others cannot be used."""
    from aiperf_core.described import Described
    from aiperf_core.harness.run.options import Known, Options

    usable, unusable = [], []
    with scratch_planner(Options(known=Known(devices=plugins.known_devices))) as planner:
        for target, found in zip(targets, planner.describe(targets), strict=True):
            if isinstance(found, Described):
                usable.append((target, found))
            else:
                unusable.append(found.reason)
    return usable, unusable


def _document(found: "Standings", unusable: list[str]) -> dict[str, Any]:
    return {
        "goals": [_record(standing) for standing in found.rows],
        "without": found.without,
        "never_on_gpu": found.never_on_gpu,
        "unreadable": found.unreadable,
        "unusable": unusable,
    }


def _record(standing: "JudgedGoal") -> dict[str, Any]:
    reached = standing.reached
    return {
        "target": standing.target,
        "goal": asdict(standing.goal),
        "words": str(standing.goal),
        "state": standing.state,
        "figure": asdict(reached.figure) if reached else None,
        "implementation": reached.implementation if reached else None,
        "origin": asdict(standing.origin) if standing.origin else None,
        "reason": standing.reason or None,
    }
