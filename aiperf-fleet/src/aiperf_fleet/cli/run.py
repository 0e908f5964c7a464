"""`aiperf fleet run`: run a suite on the machines of an engine."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.names import printable
from aiperf_core.plugins import Plugins
from aiperf_core.units import plural
from aiperf_fleet.cli.common import POLL, QUIET

if TYPE_CHECKING:
    from aiperf_fleet.records import FleetFile
    from aiperf_fleet.running import Runner


@click.command("run")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--on", "engine", default="here", show_default=True, metavar="ENGINE", help="here, slurm, ray, or a plugin's."
)
@click.option(
    "--engine", "options", multiple=True, metavar="NAME=VALUE", help="An option of the engine. May be repeated."
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep the fleet in this new folder."
)
@click.option(
    "--python", default=sys.executable, metavar="FILE", help="Python on the machines. [default: that of this command]"
)
@click.option(
    "--history", type=click.Path(path_type=Path), metavar="FOLDER", help="Earlier runs, from which times are known."
)
@click.option("--dry-run", is_flag=True, help="Show the tasks, and start none.")
@POLL
@QUIET
@json_option("the fleet as one JSON document")
@click.pass_obj
def command(
    plugins: Plugins,
    suite: Path,
    engine: str,
    options: tuple[str, ...],
    out: Path | None,
    python: str,
    history: Path | None,
    dry_run: bool,
    poll_s: float,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run the targets of SUITE, each on one whole machine.

    Exit code 0: every task has its bundle. 1: some have none; the last line says how to try again. The results of the
    runs are in the bundles, with their own exit codes.

    \b
    Examples:
      aiperf fleet run suite.toml --dry-run
      aiperf fleet run suite.toml --on slurm --engine partition=gpu
    """
    from aiperf_core.results.bundle import DEFAULT_PARENT
    from aiperf_fleet import records
    from aiperf_fleet.cli.common import check_store, run_to_end, runner_of, say_to
    from aiperf_fleet.place import Place
    from aiperf_fleet.planning import plan
    from aiperf_fleet.running import now
    from aiperf_fleet.suite import FORMAT

    found = FORMAT.read(suite)
    check_store(plugins, found.store)
    place = Place(out or _new_folder(found.name))
    place.check_new()
    file = records.FleetFile(
        records.FORMAT, found.name, engine, _options(options), python, found, now(), now(), records.State.OPEN, []
    )

    def planned(where: Place) -> "Runner":
        """A runner with its tasks."""
        runner = runner_of(plugins, where, file, poll_s=poll_s, quiet=quiet)
        try:
            runner.offers = runner.engine.offers()
            file.tasks = plan(found, plugins, runner.offers, history or DEFAULT_PARENT)
        except BaseException:
            runner.engine.close()
            raise
        return runner

    if dry_run:
        with TemporaryDirectory(prefix="aiperf-fleet-") as folder:
            temporary = Place(Path(folder))
            temporary.make()
            planned(temporary).engine.close()
        return _shown(file)
    place.make()
    with place.held():
        # Another process may have made one until now.
        place.check_new()
        runner = planned(place)
        on = f"{plural('task', len(file.tasks))} on {plural('machine', len(runner.offers))}"
        say_to(quiet)(f"{on}; the fleet is {printable(str(place.folder))}")
        return run_to_end(runner, as_json=as_json, quiet=quiet)


def _options(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise UsageError(f"--engine takes NAME=VALUE, such as partition=gpu; got {one!r}.")
        found[name] = value
    return found


def _new_folder(name: str) -> Path:
    """A folder that no fleet has yet."""
    from datetime import datetime

    from aiperf_fleet.place import DEFAULT

    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{name}"
    number = 1
    while (path := DEFAULT / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return path


def _shown(file: "FleetFile") -> ExitCode:
    from aiperf_core.cli.tables import print_table

    print_table(
        ("task", "class", "machine", "repeat", "seconds in earlier runs"),
        [
            (
                one.id,
                one.machine_class,
                one.machine or "any",
                one.repeat,
                f"{one.expected_s:.1f}" if one.expected_s else "-",
            )
            for one in file.tasks
        ],
    )
    return ExitCode.OK
