"""`aiperf fleet status`: the tasks of a fleet, and its machines."""

from pathlib import Path

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import ExitCode
from aiperf_fleet.cli.common import FOLDER


@click.command("status")
@FOLDER
@json_option("the fleet as one JSON document")
def command(folder: Path, as_json: bool) -> int:
    """Show the tasks of FLEET, and which machines are slow.

    Nothing is asked of the engine: the fleet file says it all. The exit code is 1 for a fleet that ended PARTIAL.
    """
    from aiperf_core.names import words
    from aiperf_fleet import keeping, records
    from aiperf_fleet.cli.common import show
    from aiperf_fleet.place import Place

    place, file = Place(folder), records.read(folder)
    show(place, file, as_json=as_json)
    if not as_json and file.state is records.State.OPEN and not place.is_held:
        click.echo(f"no process runs it. Continue: aiperf fleet resume {words(str(folder))}", err=True)
    return keeping.EXIT_CODES[file.state] if file.state is records.State.PARTIAL else ExitCode.OK
