"""Common parts of the subcommands: options, the engine of a fleet, and the tables."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiperf_core.cli.measuring import FiniteRange
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_fleet.place import Place
    from aiperf_fleet.records import FleetFile
    from aiperf_fleet.running import Runner

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="FLEET")
POLL = click.option(
    "--poll", "poll_s", type=FiniteRange(0.05, 3600), default=1.0, show_default=True, metavar="SECONDS",
    help="How often the engine is asked.",
)  # fmt: skip
QUIET = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
CANCELLED = 130


def say_to(quiet: bool) -> Callable[[str], None]:
    """Printer of messages on stderr."""
    return lambda text: None if quiet else click.echo(words(text), err=True)


def runner_of(plugins: Plugins, place: "Place", file: "FleetFile", *, poll_s: float, quiet: bool) -> "Runner":
    """The runner of a fleet file, with its engine. Raises UsageError for an engine that is not here."""
    from aiperf_core.errors import SkipError
    from aiperf_core.fleet import known_fleet
    from aiperf_fleet.running import Runner

    fleet = known_fleet(file.engine, plugins.known_fleets)
    try:
        engine = fleet.resolve(place.exchange.absolute(), file.options)
    except SkipError as error:
        raise UsageError(f"the engine '{file.engine}' cannot be used: {error}") from error
    return Runner(place, file, engine, plugins, say_to(quiet), poll_s=poll_s)


def check_store(plugins: Plugins, store: str | None) -> None:
    """Raise UsageError where a store cannot be used, before anything is measured."""
    if store is None:
        return
    if "db" not in plugins.commands:
        raise UsageError(
            "a store is named, and no package has aiperf db. Install aiperf-analysis, or name none: 'store' of the "
            "suite and --db."
        )
    if failed := _db("list", "--limit", "1", "--db", store):
        raise UsageError(f"the store cannot be used: {failed}")


def add_to_store(place: "Place", file: "FleetFile", store: str | None) -> str:
    """Add the bundles to a store; why that failed, empty otherwise. The bundles themselves are kept."""
    bundles = [str(place.bundle(task.id)) for task in file.tasks if task.done is not None]
    bundles += [str(place.own_bundle)] if place.own_bundle.exists() else []
    return _db("add", "--db", store, *bundles) if store and bundles else ""


def _db(*arguments: str) -> str:
    """Run `aiperf db`, a command of another package; why it failed, empty otherwise."""
    line = [sys.executable, "-m", "aiperf_core", "db", *arguments]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, check=False, encoding="utf-8", errors="replace"
    )
    said = done.stderr.strip().removeprefix("aiperf: ")
    return "" if done.returncode == 0 else said or f"aiperf db {arguments[0]} ended with {done.returncode}"


def run_to_end(runner: "Runner", *, as_json: bool, quiet: bool) -> int:
    """Run a fleet to its end, and print it. Ctrl-C leaves it for `aiperf fleet resume`."""
    from aiperf_fleet import keeping

    place = runner.place
    try:
        state = runner.run()
    except KeyboardInterrupt:
        runner.save()
        folder = words(str(place.folder))
        click.echo(
            f"interrupted; the bundles so far are kept. Continue: aiperf fleet resume {folder}. "
            f"End it: aiperf fleet cancel {folder}",
            err=True,
        )
        return CANCELLED
    finally:
        runner.engine.close()
    if failed := add_to_store(place, runner.file, runner.file.suite.store):
        raise AiperfError(f"the bundles were not added to the store: {failed}")
    show(place, runner.file, as_json=as_json, quiet=quiet)
    return keeping.EXIT_CODES[state]


def show(place: "Place", file: "FleetFile", *, as_json: bool, quiet: bool = False) -> None:
    """Print the tasks and the machines. Raises SealError, after the tasks, for a bundle that was changed."""
    from aiperf_core.cli.tables import print_table
    from aiperf_core.results import jsontext, structure
    from aiperf_fleet import tables
    from aiperf_fleet.keeping import measurements
    from aiperf_fleet.slow import compare

    if not (as_json or quiet):
        print_table(tables.TASK_HEADS, list(map(tables.task_row, file.tasks)))
        click.echo()
    comparison = compare(measurements(place, file.tasks))
    if as_json:
        parts = {"fleet": structure.document(file), "machines": structure.document(comparison)}
        click.echo(jsontext.dumps({**parts, "folder": str(place.folder)}), nl=False)
        return
    if comparison.machines:
        print_table(tables.MACHINE_HEADS, list(map(tables.machine_row, comparison.machines)))
    click.echo(tables.about_machines(comparison))
    missing = len(file.missing)
    again = f"; {missing} missing. Try these again: aiperf fleet resume {words(str(place.folder))}" if missing else ""
    click.echo(f"{tables.about_bundles(file.tasks, file.state)} in {words(str(place.runs))}{again}")
