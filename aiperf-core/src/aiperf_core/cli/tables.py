"""Tables: wrapped to the terminal's width in a terminal; whole, uncoloured and a line a row anywhere else."""

import os
import sys
from collections.abc import Sequence
from typing import Literal

import click

GAP = 2
LAST_AT_LEAST = 20


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their heads. Cells that are numbers stand to the right; the last column is the one that wraps."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(heads))]
    if sys.stdout.isatty():
        _print_wrapped(heads, cells, numeric)
    else:
        _print_whole(heads, cells, numeric)


def _print_whole(heads: Sequence[str], rows: list[list[str]], numeric: list[bool]) -> None:
    table = [list(heads), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo((" " * GAP).join(padded).rstrip())


def _print_wrapped(heads: Sequence[str], rows: list[list[str]], numeric: list[bool]) -> None:
    # rich costs a third of the command's time, and a pipe has no use for it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    # The last column gives way first. Only where that is not enough do the others fold; they are never cut, since a name
    # with an ellipsis in it cannot be typed.
    others = sum(max(map(len, column)) + GAP for column in list(zip(heads, *rows, strict=True))[:-1])
    fits = others + LAST_AT_LEAST <= console.width
    for column, head in enumerate(heads):
        last = column == len(heads) - 1
        justify: Literal["left", "right"] = "right" if numeric[column] else "left"
        table.add_column(head, justify=justify, overflow="fold", no_wrap=fits and not last)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
