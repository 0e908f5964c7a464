"""Tables of texts that fit the width of a terminal.

In a pipe every row is one line of any length, for other programs. In a terminal, or where COLUMNS is set, rows that do
not fit are laid out in the way that takes the fewest lines, all rows alike: the last column wrapped; all columns but
the first wrapped; the first on a line of its own, and the others wrapped; a list of labels and texts. A cell may have
several lines, as a figure with its interval below it.

Without rich: its import would take a third of the time of `aiperf list`.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

import click
from attrs import frozen

from aiperf_core.cli.color import has_color

GAP = "  "
INDENT = "  "
LAST_AT_LEAST = 24  # width of the last column, if only that is wrapped
EMPTY = ("", "-")  # cells that a list of labels and texts leaves out
TEXT_AT_LEAST = 8  # width of a wrapped column
NARROWEST = 16

# The colours of cells. Words in capitals and places may have text behind them.
GOOD, BAD, OPEN = "green", "red", "yellow"
COLORS = {
    **dict.fromkeys(("FASTER", "SMALLER", "MET", "RAISED", "holds", "proven here"), GOOD),
    **dict.fromkeys(("INVALID", "UNTRUSTED", "FAILED", "MISSED", "does not hold", "unreadable"), BAD),
    **dict.fromkeys(("SLOWER", "LARGER", "INCONCLUSIVE", "UNCLEAR", "LOWERED", "speedup differs", "open"), OPEN),
}
_WORD = re.compile(r"[A-Z]+\b|proven here\b")
# A number with its unit, with or without its interval, or an interval: it is never broken.
_FIGURE = re.compile(
    r"[<>~]?\s*[+-]?\d[\d,]*(?:\.\d+)?\s?"
    r"(?:[munµ]?s|min|x|%|[KMGTP]?i?B(?:/s)?|[kMGTP]?(?:FL)?OP/s|[kMGT]?Hz|[munµkM]?[JW]|USD)?"
    r"(?: \[[\d., ?]+\])?|\[[\d., ]+\]|-?"
)

Rows = Sequence[Sequence[object]]


def print_table(heads: Sequence[str], rows: Rows) -> None:
    """Print rows under their heads. Columns of figures are aligned to the right."""
    texts, color = [[str(cell) for cell in row] for row in rows], has_color(sys.stdout)
    for line in _layout(heads, texts, room()).lines(heads, texts, color):
        click.echo(line, color=color)


def print_text(text: str) -> None:
    """Print a paragraph, wrapped to the width of the terminal."""
    for line in wrapped(text, room()):
        click.echo(line)


def room() -> int | None:
    """The width of the terminal, or COLUMNS; None in a pipe without COLUMNS."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(NARROWEST, shutil.get_terminal_size().columns)
    return None


@frozen
class _Layout:
    """How rows become lines.

    widths: of the columns, or of those after the first where `apart`; none for a list.
    right: the columns that are aligned to the right.
    apart: whether the first column stands on a line of its own.
    width: of the terminal; None for any.
    """

    widths: Sequence[int]
    right: Sequence[bool]
    apart: bool = False
    width: int | None = None

    def lines(self, heads: Sequence[str], rows: Sequence[Sequence[str]], color: bool) -> Iterator[str]:
        """The lines of a table."""
        if not self.widths:
            yield from self._listed(heads, rows, color)
        elif self.apart:
            yield _styled(heads[0], color, bold=True)
            yield from self._row(heads[1:], self.right[1:], color, head=True)
            for first, group in groupby(rows, key=lambda row: row[0]):
                yield from (_styled(line, color, bold=True) for line in wrapped(first, self.width))
                for row in group:
                    yield from self._row(row[1:], self.right[1:], color)
        else:
            yield from self._row(heads, self.right, color, head=True)
            for row in rows:
                yield from self._row(row, self.right, color)

    def _row(self, cells: Sequence[str], right: Sequence[bool], color: bool, head: bool = False) -> Iterator[str]:
        """A row as one line or several."""
        columns = [wrapped(cell, width) for cell, width in zip(cells, self.widths, strict=True)]
        styles = [{"bold": True} if head else _style(cell) for cell in cells]
        for height in range(max(map(len, columns), default=0)):
            line = ""
            for lines, width, turned, style in zip(columns, self.widths, right, styles, strict=True):
                text = lines[height] if height < len(lines) else ""
                blanks = " " * (width - len(text))
                shown = _styled(text, color, **style) if text else ""
                line += (blanks + shown if turned else shown + blanks) + GAP
            yield ((INDENT if self.apart else "") + line).rstrip()

    def _listed(self, heads: Sequence[str], rows: Sequence[Sequence[str]], color: bool) -> Iterator[str]:
        width = self.width or NARROWEST
        labels = [head.partition("\n")[0] for head in heads[1:]]
        label = max(map(len, labels), default=0)
        for first, *others in rows:
            yield from (_styled(line, color, bold=True) for line in wrapped(first, width))
            for head, cell in zip(labels, (cell.replace("\n", " ") for cell in others), strict=True):
                left = width - len(INDENT) - label - len(GAP)
                beside = left >= TEXT_AT_LEAST
                lines = wrapped(cell, left if beside else width - 2 * len(INDENT)) if cell not in EMPTY else []
                if lines and not beside:
                    yield from (INDENT + line for line in wrapped(head, width - len(INDENT)))
                for number, line in enumerate(lines):
                    before = f"{INDENT}{head if number == 0 else '':<{label}}{GAP}" if beside else 2 * INDENT
                    yield before + _styled(line, color, **_style(cell))


def _layout(heads: Sequence[str], texts: Sequence[Sequence[str]], width: int | None) -> _Layout:
    """The layout in which no line is broken, or else the one with the fewest lines."""
    columns = _columns(heads, texts)
    right = [any(re.search(r"\d", cell) for cell in cells) and all(map(_is_figure, cells)) for _, *cells in columns]
    natural = _natural(columns)
    before = sum(natural[:-1]) + len(GAP) * (len(natural) - 1)
    if width is None or before + natural[-1] <= width:
        return _Layout(natural, right, width=width)
    found = [_Layout([], right, width=width)]
    if len(heads) > 1:
        widths = _narrowed(columns[1:], natural[1:], width - len(INDENT))
        found += [_Layout(widths, right, True, width)] if widths else []
    widths = _narrowed(columns, natural, width, whole=1)
    found += [_Layout(widths, right, width=width)] if widths else []
    if width - before >= LAST_AT_LEAST:
        found.append(_Layout([*natural[:-1], width - before], right, width=width))
    return min(reversed(found), key=lambda layout: sum(1 for _ in layout.lines(heads, texts, False)))


def fits(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether no row needs more lines than its cells have."""
    width = room()
    return width is None or sum(_natural(_columns(heads, rows))) + len(GAP) * (len(heads) - 1) <= width


def _natural(columns: Sequence[Sequence[str]]) -> list[int]:
    """The widths of the longest lines."""
    return [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]


def _is_figure(cell: str) -> bool:
    return all(map(_FIGURE.fullmatch, cell.split("\n")))


def _columns(heads: Sequence[str], texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """The head and the cells of each column."""
    return [[head, *(row[index] for row in texts)] for index, head in enumerate(heads)]


def _narrowed(columns: Sequence[Sequence[str]], natural: Sequence[int], width: int, whole: int = 0) -> list[int]:
    """Widths of wrapped columns with the given sum, the widest narrowed first. Empty if there is too little room.

    whole: the number of columns, from the first, that are not wrapped: names are copied.
    """
    inside = width - len(GAP) * (len(columns) - 1)
    least = [
        full if all(map(_is_figure, cells)) else min(full, max(TEXT_AT_LEAST, len(head)))
        for (head, *cells), full in zip(columns, natural, strict=True)
    ]
    least[:whole] = natural[:whole]
    if sum(least) > inside:
        return []
    limit = max(natural)
    while sum(wide := [max(low, min(full, limit)) for low, full in zip(least, natural, strict=True)]) > inside:
        limit -= 1
    return wide


def wrapped(text: str, width: int | None) -> list[str]:
    """The lines of a text. Names break after an underscore, a dot, a colon or a slash."""
    if "\n" in text:
        return [line for part in text.split("\n") for line in wrapped(part, width)]
    if width is None or len(text) <= width:
        return [text]
    if width < 1:
        return []
    lines = []
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        while len(line) > width:
            cut = max(line.rfind(end, 0, width) for end in "_.:/-") + 1 or width
            lines.append(line[:cut])
            line = line[cut:]
        lines.append(line)
    return lines


def _style(cell: str) -> dict[str, object]:
    """The style of a cell, by its text or the word that it starts with."""
    word = _WORD.match(cell)
    color = COLORS.get(cell) or (COLORS.get(word.group()) if word else None)
    return {"fg": color, **({} if color == OPEN else {"bold": True})} if color else {}


def _styled(text: str, color: bool, **style: object) -> str:
    return click.style(text, **style) if color and style else text  # type: ignore[arg-type]  # keys are those of click
