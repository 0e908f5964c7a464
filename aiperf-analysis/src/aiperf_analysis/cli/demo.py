"""`aiperf demo`: stored results in a folder of their own, a small target measured, and the dashboard on both."""

import os
import sys
from pathlib import Path

import click

from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

PORT = 8321


@click.command("demo")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("artifacts/demo"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="PORT",
    help="0 takes a free port.",
)
@click.option("--no-open", "unopened", is_flag=True, help="Do not open the browser.")
@click.option("--no-dashboard", "unserved", is_flag=True, help="Unpack and measure only.")
@click.pass_obj
def demo(plugins: Plugins, folder: Path, port: int, unopened: bool, unserved: bool) -> ExitCode:
    """Show stored results of real runs in the dashboard, and measure a small target meanwhile.

    Sealed bundles that this package has are unpacked to FOLDER (artifacts/demo), which must be new or empty. A run on
    this machine's CPU, of less than half a minute, is added to them. Needs no GPU. Ctrl-C ends both.

    \b
    Examples:
      aiperf demo
    """
    from aiperf_analysis import demo as runs
    from aiperf_analysis.dashboard import serving
    from aiperf_core import units

    wanted = serving.local(port, opens=not unopened and has_display())
    if not unserved:
        serving.listening(wanted).close()  # a port that is taken is told before anything is written
    runs.checked(folder)
    count = units.plural("stored run", runs.unpack(folder))
    click.echo(f"aiperf demo: {count} in {folder}; {runs.LIVE[0]} is measured on this machine meanwhile.")
    with runs.measuring(folder) as run:
        if unserved:
            run.wait()
        else:
            click.echo("Pages to begin with:")
            for path, about in runs.TOUR:
                click.echo(f"  {path:<10}{about}")
            serving.serve(plugins, folder, None, wanted, click.echo)
    if unserved:
        click.echo(f"To look at them: aiperf dashboard {folder}")
    return ExitCode.OK


def has_display() -> bool:
    """Whether a browser with windows can open here; one for terminals would hide what the command prints."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
