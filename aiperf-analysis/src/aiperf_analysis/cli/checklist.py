"""`aiperf checklist`: recommendations, what proves them, and probes of this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_analysis.cli.analyze import output_of
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option
from aiperf_core.errors import ExitCode

if TYPE_CHECKING:
    from aiperf_analysis.selection import Selection


@click.command("checklist")
@click.argument("bundles", nargs=-1, metavar="[BUNDLE]...")
@click.option("--topic", metavar="TOPIC", help="Only this topic, such as cuda, host or inference.")
@click.option("--search", metavar="WORDS", help="Only items that contain all these words.")
@click.option("--check", is_flag=True, help="Run the automatic probes; items without a probe are counted.")
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("artifacts/runs"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the bundles.",
)
@result_file_option
@json_option("the result as one JSON document")
def checklist(
    bundles: tuple[str, ...], topic: str | None, search: str | None, check: bool, folder: Path, **values: Any
) -> ExitCode:
    """Show recommendations of performance engineering, and which of them results have proven.

    The results of each BUNDLE, or of the folder of --in, decide the status. proven here: a target of the item has a
    believed gain on this kind of machine. elsewhere: on another kind. unproven: no such result, or no target measures
    it.

    The exit code is 0, whatever probes find: an item is a recommendation. It is 3 if a bundle was changed after its
    run.

    \b
    Examples:
      aiperf checklist --topic host --check
    """
    from aiperf_analysis.advice import checklist as advice
    from aiperf_analysis.advice import items
    from aiperf_core.results.machine import machine

    items.chosen(topic, search)  # a wrong name is refused before anything is read
    seen = None
    if check:
        from aiperf_analysis.advice.probes import look

        seen = look()
    selection = _selection(bundles, folder)
    return output_of(
        values,
        selection,
        lambda: advice.checklist(selection, machine(), topic=topic, search=search, seen=seen),
    )


def _selection(bundles: tuple[str, ...], folder: Path) -> "Selection":
    """The rows of bundles or of a folder; none where the default folder has no bundles yet."""
    from aiperf_analysis.selection import Selection, select
    from aiperf_core.results.listing import bundles as listed

    if not bundles and not (folder.is_dir() and listed(folder)):
        return Selection([], [])
    return select(bundles, folder=folder)
