"""Tables: wrapped to the width of a terminal; elsewhere without colours, with a line for each row.

Without rich: its import would take a third of the time of `aiperf list`.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import click

GAP = "  "
LAST_AT_LEAST = 20  # width of the last column; where there is less room, the terminal breaks the lines


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their heads. Columns of numbers are aligned to the right; only the last column wraps."""
    terminal = sys.stdout.isatty()
    for number, line in enumerate(_lines(heads, rows, shutil.get_terminal_size().columns if terminal else None)):
        bold = number == 0 and terminal and not os.environ.get("NO_COLOR")
        click.echo(click.style(line, bold=True) if bold else line)


def _lines(heads: Sequence[str], rows: Sequence[Sequence[object]], width: int | None) -> Iterator[str]:
    table = [list(heads), *([str(cell) for cell in row] for row in rows)]
    numeric = [bool(rows) and all(isinstance(cell, int) for cell in column) for column in zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    indent = sum(widths[:-1]) + len(GAP) * len(widths[:-1])
    for row in table:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric or [False] * len(row), strict=True)
        ]
        line = GAP.join(cells).rstrip()
        if width is None or width - indent < LAST_AT_LEAST or len(line) <= width:
            yield line
            continue
        first, *others = textwrap.wrap(row[-1], width - indent, break_on_hyphens=False)
        yield GAP.join([*cells[:-1], first])
        yield from (" " * indent + other for other in others)
