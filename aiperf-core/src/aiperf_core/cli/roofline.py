"""`aiperf roofline`: results on the roofline of the machine that they were measured on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import TargetResult


@click.command("roofline")
@click.argument("what", metavar="BUNDLE[:TARGET]")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="An .svg or .png file.")
def roofline(what: str, out: Path) -> None:
    """Draw the results of a run, or of one of its targets, on the machine's roofline.

    The horizontal axis is arithmetic intensity: operations per byte that the work must move. The roofs are what the
    machine was measured to reach in that run. Rows that are not believed are left out, and named.
    """
    from aiperf_core.names import words
    from aiperf_core.render.draw import NAMED, check, draw
    from aiperf_core.render.roofline import roofline as collect

    check(out)
    bundle, results = _chosen(what)
    picture = collect(results, bundle.manifest)
    title = results[0].target if len(results) == 1 else bundle.path.resolve().name
    draw(picture, title, out)
    for line in picture.left_out:
        click.echo(f"left out: {words(line)}", err=True)
    marks = sum(len(panel.marks) for panel in picture.panels)
    named = (
        "" if all(len(panel.marks) <= NAMED for panel in picture.panels) else ", too many to name more than the best"
    )
    sys.stdout.write(f"{out}: {marks} implementation{'' if marks == 1 else 's'}{named}\n")


def _chosen(what: str) -> tuple["Bundle", list["TargetResult"]]:
    """The bundle, and the results in it that are to be drawn. A folder's name may itself hold a colon."""
    from aiperf_core.results.bundle import Bundle

    path, colon, target = what.rpartition(":")
    if not colon or Path(what).exists():
        bundle = Bundle.open(Path(what))
        return bundle, list(bundle.targets.values())
    bundle = Bundle.open(Path(path))
    return bundle, [bundle.target(target)]
