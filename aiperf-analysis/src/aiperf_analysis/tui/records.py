"""A record as lines of text."""

from collections.abc import Sequence

from aiperf_analysis.render import figures
from aiperf_analysis.result import Column, Record
from aiperf_core.names import words


def record_lines(columns: Sequence[Column], record: Record, most: int = 2000) -> list[str]:
    """A record as lines: each cell with its title, its interval and why it has no value.

    most: characters of a text that are shown.
    """
    found = []
    for column in columns:
        cell = record.cells.get(column.key)
        why = figures.reason(cell)
        shown = f"none ({words(why)})" if why else figures.whole(cell[:most] if isinstance(cell, str) else cell)
        if shown:
            found.append(f"{words(column.title)}: {shown}")
    return found
