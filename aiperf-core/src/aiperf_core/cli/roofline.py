"""`aiperf roofline`: results on the roofline of the machine that they were measured on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, verified

if TYPE_CHECKING:
    from aiperf_core.results.address import Address


@click.command("roofline")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="An .svg, .png or .pdf file."
)
@verified("what")
def roofline(what: "Address", out: Path) -> None:
    """Draw the results of a run, or of one of its targets, on the machine's roofline.

    The horizontal axis is arithmetic intensity: operations per byte that the work must move. The roofs are what the
    machine reached when its ceilings were measured in that run. Rows that are not believed are left out, and listed.
    PNG and PDF need the extra aiperf-core[plots].

    \b
    Examples:
      aiperf roofline latest --out roofline.svg
    """
    from aiperf_core import units
    from aiperf_core.names import printable, words
    from aiperf_core.report import picture
    from aiperf_core.report import roofline as rooflines

    picture.check(out)
    results = what.outlines()
    collected = rooflines.roofline(results, what.bundle.manifest)
    title = results[0].target if len(results) == 1 else what.bundle.path.resolve().name
    picture.write([rooflines.draw(panel, title) for panel in collected.panels], out)
    for line in collected.left_out:
        click.echo(f"left out: {words(line)}", err=True)
    marks = sum(len(panel.marks) for panel in collected.panels)
    click.echo(f"{printable(str(out))}: {units.plural('implementation', marks)}")
