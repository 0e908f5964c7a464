"""A record as lines of text."""

from collections.abc import Sequence

from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Column, Record


def record_lines(columns: Sequence[Column], record: Record, most: int = 2000) -> list[str]:
    """A record as lines: each cell with its title, its interval and why it has no value.

    most: characters of a text that are shown.
    """
    found = []
    for column in columns:
        cell = record.cells.get(column.key)
        why = cell_text.reason(cell)
        shown = f"none ({words(why)})" if why else cell_text.whole(cell[:most] if isinstance(cell, str) else cell)
        if shown:
            found.append(f"{words(column.title)}: {shown}")
    return found
