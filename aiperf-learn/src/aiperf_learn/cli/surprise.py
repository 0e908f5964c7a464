"""`aiperf surprise`: measurements that fool the usual tools, beside what aiperf says of the same code."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import quiet_option
from aiperf_core.cli.result_file import result_file_option
from aiperf_core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from aiperf_learn.surprises.catalogue import Surprise

EVERY = "all"


@click.command("surprise")
@click.argument("name", required=False, metavar="[NAME]")
@result_file_option
@quiet_option
def surprise(name: str | None, out: Path | None, quiet: bool) -> ExitCode:
    """Show a measurement that fools a usual tool, beside what aiperf says of the same code, with the cause.

    Without NAME, list the surprises; 'all' shows each. Tool and aiperf run here, for some seconds. No GPU is needed.

    \b
    Examples:
      aiperf surprise
      aiperf surprise page_faults
      aiperf surprise mean --out mean.html
    """
    from aiperf_learn.surprises.catalogue import SURPRISES, find

    if out is not None and name in (None, EVERY):
        raise UsageError("--out takes the result of a single surprise: give its NAME. The names: aiperf surprise")
    if name is None:
        from aiperf_core.cli.tables import print_table

        print_table(("name", "tool", "surprise"), [(case.name, case.tool, case.summary) for case in SURPRISES])
        click.echo("\nShow it: aiperf surprise NAME. All of them run on a processor; no GPU is needed.")
        return ExitCode.OK
    if name != EVERY:
        return _show(find(name), out, quiet)
    codes = []
    for surprise in SURPRISES:
        codes.append(_show(surprise, None, quiet))
        click.echo()
    return max(codes)


def _show(surprise: "Surprise", out: Path | None, quiet: bool) -> ExitCode:
    from aiperf_core.cli.result_file import show_result
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_learn.surprises import showing

    report = showing.run_tool(surprise)
    if out is None:
        click.echo(f"The code, and the tool, {surprise.tool}, as people write it:\n\n{report.source}")
    with RunView(consoles()[1], quiet=quiet) as view:
        measured = showing.measure(surprise, view)
    return show_result(showing.compare(surprise, report, measured), out)
