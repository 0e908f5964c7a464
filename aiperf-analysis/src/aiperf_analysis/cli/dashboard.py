"""`aiperf dashboard`: pages and a REST API of results, on a server of this machine."""

from pathlib import Path
from typing import Any

import click

from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

PORT = 8321


@click.command("dashboard")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("artifacts/runs"))
@click.option("--db", "url", metavar="URL", help="Show a store instead of a folder; see aiperf db.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="PORT",
    help="0 takes a free port.",
)
@click.option("--socket", type=click.Path(path_type=Path), metavar="FILE", help="Listen on a Unix socket (mode 0600).")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name that requests may name.")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="TLS: the certificate, PEM.")
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="TLS: its private key, PEM.")
@click.option("--behind-proxy", is_flag=True, help="A proxy of yours ends TLS before this server.")
@click.option(
    "--accept",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Accept bundles by PUT with a token, and keep them there; needs --db.",
)
@click.option(
    "--set", "given", multiple=True, metavar="ANALYSIS.OPTION=VALUE", help="An option that only a command line gives."
)
@click.option("--open", "opens", is_flag=True, help="Open the browser.")
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write all pages to a new folder as a static site, and serve nothing.",
)
@click.pass_obj
def dashboard(plugins: Plugins, /, folder: Path, url: str | None, target: Path | None, **values: Any) -> ExitCode:
    """Show results as pages, and answer by a REST API.

    FOLDER has bundles; they are read again when they change, and never written. The server listens on this machine
    only, unless --host says otherwise: it then needs a token, which it prints, and TLS.

    \b
    Examples:
      aiperf dashboard
      aiperf dashboard --export pages
    """
    from aiperf_analysis.dashboard import serving

    wanted = serving.Wanted(**values)
    if target is not None:
        return serving.export(plugins, folder, url, target, wanted, click.echo)
    return serving.serve(plugins, folder, url, wanted, click.echo)
