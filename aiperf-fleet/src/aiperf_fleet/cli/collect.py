"""`aiperf fleet collect`: keep what tasks delivered, without starting any."""

from pathlib import Path

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.plugins import Plugins
from aiperf_fleet.cli.common import FOLDER, QUIET


@click.command("collect")
@FOLDER
@QUIET
@click.option("--db", "store", metavar="URL", help="Add all bundles to this store instead of the suite's.")
@json_option("the fleet as one JSON document")
@click.pass_obj
def command(plugins: Plugins, folder: Path, quiet: bool, store: str | None, as_json: bool) -> ExitCode:
    """Keep late bundles of FLEET, and add all to a store.

    A bundle is late that finished after the fleet's process had ended. No task is started. On engines whose tasks end
    with the process, there is nothing to collect but what is on disk. A fleet that has ended needs no engine. Adding
    bundles again changes nothing.
    """
    from aiperf_core.results.seal_check import SealError
    from aiperf_fleet import keeping, records
    from aiperf_fleet.cli.common import add_to_store, check_store, runner_of, show
    from aiperf_fleet.place import Place

    place = Place(folder)
    records.read(folder)
    with place.held():
        file = records.read(folder)
        store = store or file.suite.store
        check_store(plugins, store)
        if not all(task.has_result for task in file.tasks):
            runner = runner_of(plugins, place, file, poll_s=1.0, quiet=quiet)
            try:
                runner.adopt()
                runner.collect()
                if all(task.over for task in file.tasks) and file.state is not records.State.CANCELLED:
                    runner.finish()
                else:
                    runner.save()
            finally:
                runner.engine.close()
        failure: type[AiperfError] = AiperfError
        try:
            if file.state is not records.State.OPEN:
                keeping.keep(place, file, plugins)
        except SealError:
            failure = SealError  # the other bundles are added all the same; `show` raises it again
    if failed := add_to_store(place, file, store):
        raise failure(f"the bundles were not added to the store: {failed}")
    show(place, file, as_json=as_json)
    return ExitCode.OK
