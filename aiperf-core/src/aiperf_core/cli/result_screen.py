"""A result in a terminal: the conclusion first, then tables, then what was left out."""

import sys
from collections.abc import Collection

import click

from aiperf_core.cli.color import has_color
from aiperf_core.cli.tables import print_table, print_text
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Column, Figure, Record, Result, Table

MOST_LEFT_OUT = 8  # rows that are named; more are counted


def show(result: Result, brief: Collection[str] = ()) -> None:
    """Print the result; its text alone where it has one.

    brief: keys of columns whose intervals are left to other forms of the result.
    """
    if result.text:
        click.echo(result.text, nl=not result.text.endswith("\n"))
        return
    print_text(words(result.title))
    for sentence in result.summary:
        print_text(words(sentence))
    for table in result.tables:
        click.echo()
        show_table(table, brief)
    if result.assumptions:
        click.echo("\nassumptions")
        for one in result.assumptions:
            print_text(f"- {words(one)}")
    if result.left_out:
        click.echo(f"\nleft out: {len(result.left_out)}")
        columns = [Column("what", "what"), Column("verdict", "verdict", "verdict"), Column("reason", "why")]
        records = [
            Record({"what": part.what, "verdict": part.verdict or None, "reason": part.reason})
            for part in result.left_out[:MOST_LEFT_OUT]
        ]
        print_records(Table("left_out", "", columns, records))
        if len(result.left_out) > MOST_LEFT_OUT:
            print_text(f"and {len(result.left_out) - MOST_LEFT_OUT} more; all of them: --json")


def show_table(table: Table, brief: Collection[str] = ()) -> None:
    """Print a table. A column of figures with intervals becomes two columns; one without any entry is left out."""
    print_text(words(table.title))
    if table.note:
        print_text(words(table.note))
    if table.records:
        print_records(table, brief)
    else:
        click.echo("none")


def print_records(table: Table, brief: Collection[str] = ()) -> None:
    """Print the records of a table under the heads of their columns, and why figures have no value."""
    columns = [
        column
        for column in table.columns
        if any(cell_text.text(record.cells.get(column.key)) != cell_text.NONE for record in table.records)
    ]
    with_interval = {
        column.key
        for column in columns
        if column.key not in brief and any(cell_text.interval(record.cells.get(column.key)) for record in table.records)
    }
    heads: list[str] = []
    for column in columns:
        title = words(column.title)
        heads += [title, _ends(table, column.key)] if column.key in with_interval else [title]
    rows, plain = [], not has_color(sys.stdout)
    for record in table.records:
        cells: list[str] = []
        for column in columns:
            cell = record.cells.get(column.key)
            cells.append(cell_text.text(cell))
            if column.key in with_interval:
                cells.append(cell_text.interval(cell))
        rows.append([cell.replace("µ", "u") for cell in cells] if plain else cells)
    print_table(heads, rows)
    reasons: dict[str, int] = {}
    for record in table.records:
        for cell in record.cells.values():
            if isinstance(cell, Figure) and cell_text.reason(cell):
                reasons[cell_text.reason(cell)] = reasons.get(cell_text.reason(cell), 0) + 1
    for reason, count in reasons.items():
        print_text(f"without a figure ({count} x): {words(reason)}")


def _ends(table: Table, key: str) -> str:
    """The head of a column of intervals. Those of values that were not measured are ranges without a probability."""
    cells = (record.cells.get(key) for record in table.records)
    kinds = {cell.certainty for cell in cells if isinstance(cell, Figure) and cell_text.interval(cell)}
    return "range" if kinds == {"estimated"} else "95 % interval"
