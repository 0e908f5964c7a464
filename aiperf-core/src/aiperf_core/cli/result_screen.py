"""A result in a terminal: the conclusion first, then tables, then what was left out."""

import sys
from collections.abc import Collection, Sequence

import click

from aiperf_core.cli.color import has_color
from aiperf_core.cli.tables import fits, print_table, print_text
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Column, Figure, Record, Result, Table

MOST_LEFT_OUT = 8  # rows that are named; more are counted


def show(result: Result) -> None:
    """Print the result; its text alone where it has one."""
    if result.text:
        click.echo(result.text, nl=not result.text.endswith("\n"))
        return
    print_text(words(result.title))
    for sentence in result.summary:
        print_text(words(sentence))
    for table in result.tables:
        click.echo()
        show_table(table)
    if result.assumptions:
        click.echo("\nassumptions")
        for one in result.assumptions:
            print_text(f"- {words(one)}")
    if result.left_out:
        from aiperf_core.report.verdict_counts import causes

        counts = causes(result.left_out)
        click.echo()
        print_text(f"left out: {len(result.left_out)}" + (f" ({counts})" if counts else ""))
        columns = [Column("what", "what"), Column("verdict", "verdict", "verdict"), Column("reason", "why")]
        records = [
            Record({"what": part.what, "verdict": part.verdict or None, "reason": part.reason})
            for part in result.left_out[:MOST_LEFT_OUT]
        ]
        print_records(Table("left_out", "", columns, records))
        if len(result.left_out) > MOST_LEFT_OUT:
            print_text(f"and {len(result.left_out) - MOST_LEFT_OUT} more; all of them: --json")


def show_table(table: Table) -> None:
    """Print a table. Intervals stand beside their figures, or below; a column without any entry is left out."""
    print_text(words(table.title))
    if table.note:
        print_text(words(table.note))
    if table.records:
        print_records(table)
    else:
        click.echo("none")


def print_records(table: Table) -> None:
    """Print the records of a table under the heads of their columns, and why figures have no value."""
    columns = [
        column
        for column in table.columns
        if any(cell_text.text(record.cells.get(column.key)) != cell_text.NONE for record in table.records)
    ]
    with_interval = {
        column.key
        for column in columns
        if any(cell_text.interval(record.cells.get(column.key)) for record in table.records)
    }
    heads, rows = _cells(table, columns, with_interval, below=False)
    if not fits(heads, rows):
        heads, rows = _cells(table, columns, with_interval, below=True)
    print_table(heads, rows)
    reasons: dict[str, int] = {}
    for record in table.records:
        for cell in (record.cells.get(column.key) for column in table.columns):
            if isinstance(cell, Figure) and cell_text.reason(cell):
                reasons[cell_text.reason(cell)] = reasons.get(cell_text.reason(cell), 0) + 1
    for reason, count in reasons.items():
        print_text(f"without a figure ({count} x): {words(reason)}")


def _cells(
    table: Table, columns: Sequence[Column], with_interval: Collection[str], *, below: bool
) -> tuple[list[str], list[list[str]]]:
    """The heads and the texts of a table, intervals below their figures or in columns of their own."""
    heads: list[str] = []
    rows: list[list[str]] = [[] for _ in table.records]
    for column in columns:
        has_interval = column.key in with_interval
        _put(heads, words(column.title), _ends(table, column.key) if has_interval else None, below)
        for row, record in zip(rows, table.records, strict=True):
            cell = record.cells.get(column.key)
            _put(row, cell_text.text(cell), cell_text.interval(cell) if has_interval else None, below)
    plain = not has_color(sys.stdout)
    return heads, [[cell.replace("µ", "u") for cell in row] if plain else row for row in rows]


def _put(row: list[str], text: str, interval: str | None, below: bool) -> None:
    """Add a cell, and its interval where its column has some."""
    if below:
        row.append(f"{text}\n{interval}" if interval else text)
    else:
        row += [text, interval] if interval is not None else [text]


def _ends(table: Table, key: str) -> str:
    """The head of a column of intervals. Those of values that were not measured are ranges without a probability."""
    cells = (record.cells.get(key) for record in table.records)
    kinds = {cell.certainty for cell in cells if isinstance(cell, Figure) and cell_text.interval(cell)}
    return "range" if kinds == {"estimated"} else "95 % interval"
