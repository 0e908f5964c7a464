"""`aiperf sweep`: a stored sweep of parameters as a table and a picture."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.errors import UsageError

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.results.address import Address
    from aiperf_core.results.sweeps import Finished


@click.command("sweep")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE", help="An .svg, .png or .pdf file.")
@json_option("the rows as one JSON document")
@result_file_option
@verified("what")
def sweep(what: "Address", picture: Path | None, as_json: bool, out: Path | None) -> None:
    """Show a sweep of parameters, which 'aiperf run --set n=1e6,1e7' measured.

    The table has a row for each point and implementation. The picture shows time and the fraction of the speed of light
    (SOL) against the parameter, with 95 % intervals. Rows that are not believed are left out of it, and listed. PNG and
    PDF need the extra aiperf-core[plots].

    \b
    Examples:
      aiperf sweep latest --picture sweep.svg
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.report.picture import check
    from aiperf_core.results import jsontext, structure
    from aiperf_core.results.sweeps import sweeps
    from aiperf_core.sweep import base_name

    if picture is not None:
        check(picture, "--picture")
    skipped = [
        one
        for one in what.bundle.manifest.skipped
        if what.target is None or base_name(one.target) == base_name(what.target)
    ]
    results: list[Finished] = [*what.outlines(), *skipped]
    stored = sweeps(results)
    if not stored:
        raise UsageError(
            f"'{what.bundle.path}' holds no sweep. Measure one with several values of a parameter, such as: "
            "aiperf run TARGET --set n=1e6,1e7"
        )
    screen, _ = consoles()
    if as_json:
        documents = [
            {"target": one.target, "parameters": list(one.parameters), "rows": list(map(structure.document, one.rows))}
            for one in stored
        ]
        screen.write(jsontext.dumps({"bundle": str(what.bundle.path), "sweeps": documents}))
    show_sweeps(None if as_json else screen, results, what.bundle.path, picture, out)


def show_sweeps(
    screen: "Screen | None",
    results: "Iterable[Finished]",
    path: Path | None,
    picture: Path | None,
    out: Path | None = None,
) -> None:
    """Print the sweeps, unless there is no screen, and write their pictures, or the whole result, to files.

    path: of the bundle; None where the run ended before it had one.
    """
    from aiperf_core.cli import result_screen
    from aiperf_core.cli.run_view import print_where
    from aiperf_core.names import words
    from aiperf_core.render.look import LABEL
    from aiperf_core.report import drawings
    from aiperf_core.report import picture as pictures
    from aiperf_core.report.result import Source
    from aiperf_core.report.sweeps import view
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.sweeps import sweeps

    if path is None:
        return
    stored, manifest = sweeps(results), Bundle.open(path).manifest
    result = view(stored, Source(str(path), str(path), manifest.created, ""), manifest.machine)
    write_result(result, out)
    if screen is not None:
        result_screen.show(result)
        click.echo()
        print_where(screen, path)
    if picture is None:
        return
    for line in [line for one in stored for line in drawings.left_out(one)]:
        click.echo(f"left out of the picture: {words(line)}", err=True)
    if not result.drawings:
        click.echo("no picture was written: no row of the sweep is believed", err=True)
        return
    pictures.write(result.drawings, picture, "--picture")
    if screen is not None:
        click.echo(f"{'picture':<{LABEL}}  {words(str(picture))}")
