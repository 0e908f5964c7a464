"""`aiperf demo`: quick runs on the CPU in a folder of their own, and the dashboard on it."""

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
@click.option("--no-dashboard", "unserved", is_flag=True, help="Only measure.")
@click.pass_obj
def demo(plugins: Plugins, folder: Path, port: int, unopened: bool, unserved: bool) -> ExitCode:
    """Measure small targets on the CPU, and show them in the dashboard.

    The runs take less than two minutes and need no GPU. Their bundles are written to FOLDER (artifacts/demo), which
    must be new or empty. Ctrl-C stops the runs, and keeps what was measured.

    \b
    Examples:
      aiperf demo
    """
    from aiperf_analysis import demo as runs
    from aiperf_analysis.dashboard import serving
    from aiperf_core import units

    wanted = serving.local(port, opens=not unopened and has_display())
    if not unserved:
        serving.listening(wanted).close()  # a port that is taken is told before the runs
    runs.checked(folder)
    click.echo(
        f"aiperf demo: {len(runs.PLAN)} quick runs on this machine's CPU, into {folder}. They take less than two "
        "minutes. Ctrl-C stops them, and keeps what was measured."
    )
    try:
        count = runs.measure(folder, click.echo, runs.PLAN)
    except KeyboardInterrupt:
        click.echo(f"Stopped. Look at what was measured: aiperf dashboard {folder}")
        raise
    if unserved:
        click.echo(f"{units.plural('run', count)} in {folder}. To look at them: aiperf dashboard {folder}")
        return ExitCode.OK
    click.echo("Pages to begin with:")
    for path, about in runs.TOUR:
        click.echo(f"  {path:<10}{about}")
    return serving.serve(plugins, folder, None, wanted, click.echo)


def has_display() -> bool:
    """Whether a browser with windows can open here; one for terminals would hide what the command prints."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
