"""`aiperf tui`: results in a terminal, with screens or with a numbered menu."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

INSTALL = "pip install 'aiperf-analysis[tui]'"


@click.command("tui")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--db", "url", metavar="URL", help="Show a store instead of a folder; see aiperf db.")
@click.option("--simple", is_flag=True, help="A numbered menu of plain lines: for pipes and screen readers.")
@click.pass_obj
def tui(plugins: Plugins, folder: Path | None, url: str | None, simple: bool) -> int:
    """Look at results in the terminal.

    FOLDER has bundles; without it, artifacts/runs. Runs, rows with their samples, comparisons, machines, and every
    analysis of aiperf analyze. The keys stand in the last line; ? explains them. Nothing is run and nothing is changed.

    \b
    Examples:
      aiperf tui
      aiperf tui --db sqlite:///artifacts/aiperf.db
      aiperf tui --simple
    """
    from aiperf_analysis.tui.source import Source
    from aiperf_core.errors import UsageError
    from aiperf_core.names import words
    from aiperf_core.results.bundle import DEFAULT_PARENT

    if url is not None and folder is not None:
        raise UsageError("--db reads from a store; give no folder with it, or add its bundles: aiperf db add FOLDER")
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"'{words(str(folder))}' is not a folder. Name a folder of bundles, such as artifacts/runs, or make "
            "results: aiperf run PATTERN"
        )
    source = Source(folder or DEFAULT_PARENT, url)
    if url is not None:
        from aiperf_analysis.store.database import url_of

        url_of(url)
    if reason := why_simple(asked=simple):
        click.echo(f"{reason}; this is the numbered menu of --simple.", err=True)
    if simple or reason:
        from aiperf_analysis.cli.tui_menu import Menu

        return Menu(plugins, source).serve()
    from aiperf_analysis.tui.app import ResultsApp

    app = ResultsApp(plugins, source)
    app.run()
    return app.return_code or ExitCode.OK


def why_simple(*, asked: bool) -> str:
    """Why the menu is used though it was not asked for; empty where it was, and for the screens."""
    if asked:
        return ""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "the input or the output is no terminal"
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return f"the terminal cannot move its cursor (TERM={os.environ.get('TERM', '')})"
    if find_spec("textual") is None:
        return f"the screens need textual, which is not installed ({INSTALL})"
    return ""
