"""Tables of a result as CSV and Parquet: a figure becomes the columns KEY, KEY_low, KEY_high, KEY_unit, KEY_reason."""

import csv
import io
from collections.abc import Sequence

from aiperf_core.names import words
from aiperf_core.report import text as text_formats
from aiperf_core.report.result import Figure, Result, Table


def text(result: Result) -> str:
    """The tables of a result."""
    return of_tables(result.tables)


def of_tables(tables: Sequence[Table]) -> str:
    """All tables, one after the other, each after a line `# NAME` where there are several."""
    parts = [_table(table) for table in tables]
    if len(parts) == 1:
        return parts[0]
    return "\n".join(f"# {table.name}\n{part}" for table, part in zip(tables, parts, strict=True))


def parquet(table: Table) -> bytes:
    """A table as a Parquet file. Raises UsageError without PyArrow."""
    heads, rows = _flat(table)
    columns = {head: [row[place] for row in rows] for place, head in enumerate(heads)}
    kinds = {head: _kind(column) for head, column in columns.items()}
    texts = {
        head: [None if cell is None else str(cell) for cell in column] if kinds[head] == "str" else column
        for head, column in columns.items()
    }
    return text_formats.parquet(texts, kinds)


def _kind(column: Sequence[object]) -> str:
    """The kind of a column's cells: text where they differ."""
    kinds = {type(cell).__name__ for cell in column if cell is not None}
    if kinds <= {"int", "float"} and "float" in kinds:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "str"


def _table(table: Table) -> str:
    heads, rows = _flat(table)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return file.getvalue()


def _flat(table: Table) -> tuple[list[str], list[list[object]]]:
    """The heads and the cells, with the bundle, the target and the row that each record comes from."""
    figures = {
        column.key
        for column in table.columns
        if any(isinstance(record.cells.get(column.key), Figure) for record in table.records)
    }
    heads: list[str] = []
    for column in table.columns:
        more = ("", "_low", "_high", "_unit", "_reason") if column.key in figures else ("",)
        heads += [f"{column.key}{end}" for end in more]
    # Names of columns that a table has already stay its own.
    heads += [f"of_{name}" if name in heads else name for name in ("bundle", "target", "row")]
    rows = []
    for record in table.records:
        cells: list[object] = []
        for column in table.columns:
            cell = record.cells.get(column.key)
            if column.key not in figures:
                cells.append(cell)
            elif isinstance(cell, Figure):
                cells += [cell.value, cell.low, cell.high, cell.unit, cell.reason]
            else:
                cells += [cell, None, None, None, None]
        origins = record.origins
        cells += [
            " ".join(dict.fromkeys(str(value) for value in values if value))
            for values in (
                [origin.bundle for origin in origins],
                [origin.target for origin in origins],
                [origin.row for origin in origins],
            )
        ]
        rows.append(cells)
    return heads, rows


def _safe(cell: object) -> object:
    """A text without control characters, that a spreadsheet does not take for a formula."""
    if not isinstance(cell, str):
        return cell
    plain = words(cell)
    return f"'{plain}" if plain.startswith(text_formats.FORMULA) else plain
