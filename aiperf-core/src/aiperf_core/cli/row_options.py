"""The options of commands that print rows of results: `--compact`, `--columns`, `-v` and `--sort`."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import together
from aiperf_core.errors import UsageError

if TYPE_CHECKING:
    from aiperf_core.render.row_columns import View

SORTS = ("declared", "speedup", "time", "name")
HELP = "help"


def row_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command, which receives them as `view`."""
    options = together(
        click.option("--compact", is_flag=True, help="Print the run as one table, with a line per implementation."),
        click.option(
            "--columns",
            metavar="NAME,...",
            is_eager=True,
            callback=_columns,
            help="Columns to show, such as median,min,p95. For the list: --columns help.",
        ),
        click.option("-v", "--verbose", is_flag=True, help="Show all columns with a figure, and all notes."),
        click.option(
            "--sort", type=click.Choice(SORTS), default="declared", show_default=True, help="The order of the rows."
        ),
        color_option,
    )

    @wraps(command)
    def called(
        *arguments: Any, compact: bool, columns: tuple[str, ...], verbose: bool, sort: str, **values: Any
    ) -> Any:
        if verbose and columns:
            raise UsageError("-v shows all columns; give either -v or --columns.")
        return command(*arguments, view=_view(compact, columns or _all(verbose), sort, verbose), **values)

    return options(called)


def _columns(context: click.Context, _: click.Parameter, text: str | None) -> tuple[str, ...]:
    """The names of `--columns`. `help` prints all of them and ends the command."""
    if text is None or context.resilient_parsing:
        return ()
    from aiperf_core.render import row_columns

    if text == HELP:
        click.echo(row_columns.listed())
        context.exit()
    return row_columns.columns_of(name.strip() for name in text.split(",") if name.strip())


def _all(verbose: bool) -> tuple[str, ...]:
    """The names of all columns; none where they are not wanted, so that nothing is imported."""
    if not verbose:
        return ()
    from aiperf_core.render import row_columns

    return tuple(row_columns.COLUMNS)


def _view(compact: bool, columns: tuple[str, ...], sort: str, verbose: bool) -> "View | None":
    """The choice of the user; None where all options are the defaults, so that nothing is imported."""
    if not compact and not columns and sort == SORTS[0]:
        return None
    from aiperf_core.render.row_columns import View

    return View(columns, sort, compact, filled=verbose)
