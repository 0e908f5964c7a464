"""Columns of cells with several lines, laid out so that nothing is cut.

The table of rich shortens or drops columns that do not fit, without a message. Here the widths of the cells decide, and
the caller checks first whether they fit.
"""

from collections.abc import Sequence

from attrs import frozen
from rich.table import Table
from rich.text import Text

from aiperf_core.render.look import Look

GAP = 2
Cell = list[Text]  # its lines
Line = list[Cell]  # a row of the grid, a cell a column


@frozen
class Column:
    """A column: the lines of its heading, and whether its cells are aligned to the right, as numbers are."""

    head: tuple[str, ...]
    right: bool = False


def widths(columns: Sequence[Column], lines: Sequence[Line]) -> list[int]:
    """The width of each column."""
    return [
        max([*map(len, column.head), *(text.cell_len for line in lines for text in line[index])])
        for index, column in enumerate(columns)
    ]


def total(columns: Sequence[Column], lines: Sequence[Line]) -> int:
    """The width of the grid."""
    return sum(widths(columns, lines)) + GAP * (len(columns) - 1)


def heading(columns: Sequence[Column]) -> Line:
    """The headings as a row; lines after the first are dim, as in the cells."""
    return [[Text(text, "dim" if index else "") for index, text in enumerate(column.head)] for column in columns]


def draw(columns: Sequence[Column], line: Line, wide: Sequence[int]) -> list[Text]:
    """Draw one row of the grid, with as many lines as its tallest cell."""
    drawn = []
    for height in range(max(map(len, line))):
        joined, blanks = Text(no_wrap=True), 0
        for cell, column, width in zip(line, columns, wide, strict=True):
            if height < len(cell) and cell[height]:
                left = width - cell[height].cell_len
                joined.append(" " * (blanks + left * column.right)).append_text(cell[height])
                blanks = GAP + left * (not column.right)
            else:
                blanks += width + GAP
        drawn.append(joined)
    return drawn


def table(columns: Sequence[Column], lines: Sequence[Line], look: Look) -> list[Text]:
    """Draw a whole grid: the headings, a rule and the rows."""
    wide = widths(columns, lines)
    rule = Text(look.rule * total(columns, lines), "dim")
    return [
        *draw(columns, heading(columns), wide),
        rule,
        *(text for line in lines for text in draw(columns, line, wide)),
    ]


def fold(name: str, width: int) -> list[str]:
    """Break a name into lines of at most `width`, after underscores where that is possible."""
    lines = [""]
    for part in name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines


def labelled(width: int | None = None) -> Table:
    """A grid of labels, each with a paragraph beside it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="" if width else "dim", width=width)
    grid.add_column(overflow="fold")
    return grid
