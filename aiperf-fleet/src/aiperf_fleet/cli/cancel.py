"""`aiperf fleet cancel`: end the tasks of a fleet."""

from pathlib import Path

import click

from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_fleet.cli.common import FOLDER, QUIET


@click.command("cancel")
@FOLDER
@QUIET
@click.pass_obj
def command(plugins: Plugins, folder: Path, quiet: bool) -> ExitCode:
    """End the tasks of FLEET. Its bundles stay, and aiperf fleet resume continues it.

    A process that runs the fleet is asked to do it, which takes it a moment.
    """
    from aiperf_fleet import records
    from aiperf_fleet.cli.common import runner_of
    from aiperf_fleet.place import Place

    place, file = Place(folder), records.read(folder)
    if file.state is not records.State.OPEN:
        click.echo(f"the fleet has ended already: {file.state}", err=True)
        return ExitCode.OK
    try:
        with place.held():
            file = records.read(folder)
            runner = runner_of(plugins, place, file, poll_s=1.0, quiet=quiet)
            try:
                runner.adopt()
                runner.cancel()
            finally:
                runner.engine.close()
    except AiperfError:
        if not place.is_held:
            raise
        place.cancel()
        click.echo(f"asked the process that runs '{words(str(folder))}' to cancel it", err=True)
        return ExitCode.OK
    click.echo("cancelled", err=True)
    return ExitCode.OK
