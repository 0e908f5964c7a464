"""`aiperf fleet resume`: continue a fleet where it stopped."""

from pathlib import Path

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.plugins import Plugins
from aiperf_fleet.cli.common import FOLDER, POLL, QUIET


@click.command("resume")
@FOLDER
@POLL
@QUIET
@json_option("the fleet as one JSON document")
@click.pass_obj
def command(plugins: Plugins, folder: Path, poll_s: float, quiet: bool, as_json: bool) -> int:
    """Continue FLEET, the folder that aiperf fleet run printed.

    Bundles that are there stay. Tasks that were lost, handed back or cancelled start again; a failed benchmark does
    not, since that is a result.
    """
    from aiperf_fleet import records
    from aiperf_fleet.cli.common import check_store, run_to_end, runner_of
    from aiperf_fleet.place import Place

    place = Place(folder)
    records.read(folder)
    place.make()
    with place.held():
        file = records.resumed(records.read(folder))
        check_store(plugins, file.suite.store)
        place.cancel(False)
        runner = runner_of(plugins, place, file, poll_s=poll_s, quiet=quiet)
        return run_to_end(runner, as_json=as_json, quiet=quiet)
