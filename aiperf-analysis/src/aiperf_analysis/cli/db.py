"""`aiperf db`: a store of the figures of many bundles."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiperf_core.cli.bundles import IN
from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import ExitCode
from aiperf_core.names import printable

if TYPE_CHECKING:
    from aiperf_analysis.store.listing import Stored

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT = "sqlite:///artifacts/aiperf.db"


def url_option(command: Command) -> Command:
    """The option `--db`."""
    return click.option(
        "--db",
        "url",
        envvar="AIPERF_DB",
        default=DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The store: sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME.",
    )(command)


@click.group("db")
def db() -> None:
    """Keep the figures of many bundles in a database.

    A store is a file of SQLite, or a database on a PostgreSQL server for a team. Bundles stay where they are: the store
    has their figures and their places. Analyses read it with --db URL.
    """


@db.command("init")
@url_option
def init(url: str) -> None:
    """Make an empty store. A store that exists is left as it is."""
    from aiperf_analysis.store.database import made

    name, is_new = made(url)
    click.echo(f"made {name}" if is_new else "the store exists already; nothing was changed")


@db.command("add")
@click.argument("paths", nargs=-1, metavar="[BUNDLE|FOLDER|FILE.json]...")
@IN
@url_option
def add(paths: tuple[str, ...], folder: Path, url: str) -> ExitCode:
    """Add bundles, or all bundles of folders. Without an argument: those in artifacts/runs.

    The seal of each bundle is checked, samples included. A bundle is added whole or not at all; adding it again
    changes nothing. A run that goes on has no seal yet, and is left out.

    A JSON file is a result of pytest-benchmark, asv, google-benchmark, nvbench or hyperfine: its figures are kept with
    the tool's own statistics. See aiperf history.

    The exit code is 1 where a bundle or a file cannot be read, and 3 where a bundle was changed after its run.

    \b
    Examples:
      aiperf db add latest
      aiperf db add benchmarks.json
      aiperf db add results --db sqlite:///results.db
    """
    from aiperf_analysis.foreign.reading import files_of
    from aiperf_analysis.store import foreign
    from aiperf_analysis.store.adding import add_all, named
    from aiperf_analysis.store.database import opened
    from aiperf_core.names import words

    found: Counter[str] = Counter()
    code = ExitCode.OK
    files = [path for path in paths if path.endswith(".json")]
    others = tuple(path for path in paths if path not in files)
    with opened(url) as database:
        outcomes = list(add_all(database, named(others, folder))) if others or not files else []
        for path in files_of(map(Path, files)):
            outcome, problems = foreign.add(database, path)
            outcomes.append(outcome)
            for problem in problems:
                click.echo(f"left out: {words(str(path))}: {problem}", err=True)
        for one in outcomes:
            found[one.ending] += 1
            if one.reason:
                # A message of the core names the bundle.
                click.echo(f"{'left out' if one.ending == 'open' else 'refused'}: {words(one.reason)}", err=True)
            code = max(code, one.exit_code)
        click.echo(f"{database.name}: {_counted(found)}")
    return code


def _counted(found: Counter[str]) -> str:
    names = {
        "added": "added",
        "known": "there already",
        "moved": "there already, with a new folder",
        "open": "left out without a seal",
        "refused": "refused",
    }
    return ", ".join(f"{found[ending]} {name}" for ending, name in names.items() if found[ending] or ending == "added")


@db.command("list")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, metavar="COUNT", help="How many of the newest."
)
@json_option("a JSON array of all bundles")
@url_option
def list_bundles(limit: int, as_json: bool, url: str) -> None:
    """List the bundles of the store, newest first."""
    from aiperf_analysis.store.database import opened
    from aiperf_analysis.store.figures import counts
    from aiperf_analysis.store.listing import listed
    from aiperf_core.cli.tables import print_table

    with opened(url) as database:
        found = listed(database, None if as_json else limit)
        total = counts(database)
        name = database.name
    if as_json:
        from attrs import asdict

        from aiperf_core.results import jsontext

        click.echo(jsontext.dumps([asdict(one) for one in found]), nl=False)
        return
    if not found:
        click.echo(f"{name} has no bundles. Add some: aiperf db add FOLDER")
        return
    heads = ("bundle", "seal", "run", "targets", "rows", "load points", "kind of machine", "folder")
    print_table(heads, [_cells(one) for one in found])
    more = total.bundles - len(found)
    click.echo(
        f"{total.bundles} bundles, {total.targets} targets, {total.rows} rows, {total.points} load points"
        f"{f'; {more} older bundles are not shown (--limit)' if more else ''}"
    )


def _cells(one: "Stored") -> tuple[str | int, ...]:
    from aiperf_core.names import words

    kinds = words(", ".join(one.hardware))
    points = sum(one.loads.values())
    return words(one.name), one.id[:12], words(one.created)[:19], one.targets, one.rows, points, kinds, one.folder


@db.command("export")
@click.option(
    "--parquet",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Write Parquet files to this new folder.",
)
@url_option
def export(folder: Path, url: str) -> None:
    """Write the figures as Parquet files.

    DuckDB, Polars and pandas read them.
    """
    from aiperf_analysis.store.database import opened
    from aiperf_analysis.store.exporting import export as write

    with opened(url) as database:
        written = write(database, folder)
    for name, count in written.items():
        click.echo(f"written: {printable(str(folder / name))} ({count} rows)")


@db.command("prune")
@click.option(
    "--keep",
    type=click.IntRange(1),
    required=True,
    metavar="COUNT",
    help="Of each series, the newest COUNT bundles keep their folders.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def prune(keep: int, dry_run: bool, yes: bool, url: str) -> ExitCode:
    """Remove the folders of old bundles, with their samples. Their figures stay in the store.

    A folder is removed if each of its series has COUNT newer bundles with folders, and if it holds the bundle that was
    added, unchanged, and nothing else. The exit code is 3 if a bundle was changed after its run; its folder is kept.
    """
    from aiperf_analysis.store.database import opened
    from aiperf_analysis.store.pruning import Prunable, prunable
    from aiperf_analysis.store.pruning import prune as remove
    from aiperf_core import units
    from aiperf_core.names import words

    with opened(url) as database:
        looked_at = prunable(database, keep)
        found = [one for one in looked_at if isinstance(one, Prunable)]
        code = ExitCode.OK
        for one in looked_at:
            if not isinstance(one, Prunable):
                click.echo(f"kept: {words(one.reason)}", err=True)
                code = max(code, one.exit_code)
        size = units.size(sum(one.size_bytes for one in found))
        if not found:
            click.echo("nothing to remove")
            return code
        if dry_run or not yes:
            for one in found:
                click.echo(words(str(one.path)))
        if dry_run:
            click.echo(f"would remove {units.plural('folder', len(found))}, {size}")
            return code
        if not yes:
            click.confirm(f"Remove {units.plural('folder', len(found))}?", abort=True)
        for one in remove(database, found, f"keep {keep}"):
            click.echo(f"removed {words(str(one.path))}")
        click.echo(f"removed {units.plural('folder', len(found))}, {size}; their figures stay in {database.name}")
    return code
