"""The main table of a result as CSV: a figure becomes the columns KEY, KEY_low, KEY_high, KEY_unit and KEY_reason."""

import csv
import io
from collections.abc import Sequence

from aiperf_core.report.result import Figure, Result, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def text(result: Result) -> str:
    """The tables of a result."""
    return of_tables(result.tables)


def of_tables(tables: Sequence[Table]) -> str:
    """All tables, one after the other, each after a line `# NAME` where there are several."""
    parts = [_table(table) for table in tables]
    if len(parts) == 1:
        return parts[0]
    return "\n".join(f"# {table.name}\n{part}" for table, part in zip(tables, parts, strict=True))


def _table(table: Table) -> str:
    figures = {
        column.key
        for column in table.columns
        if any(isinstance(record.cells.get(column.key), Figure) for record in table.records)
    }
    heads: list[str] = []
    for column in table.columns:
        more = ("", "_low", "_high", "_unit", "_reason") if column.key in figures else ("",)
        heads += [f"{column.key}{end}" for end in more]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*heads, "bundle", "target", "row"])
    for record in table.records:
        cells: list[object] = []
        for column in table.columns:
            cell = record.cells.get(column.key)
            if column.key not in figures:
                cells.append(_safe(cell))
            elif isinstance(cell, Figure):
                cells += [cell.value, cell.low, cell.high, _safe(cell.unit), _safe(cell.reason)]
            else:
                cells += [_safe(cell), None, None, None, None]
        origins = record.origins
        joined = [
            " ".join(dict.fromkeys(str(value) for value in values if value))
            for values in (
                [one.bundle for one in origins],
                [one.target for one in origins],
                [one.row for one in origins],
            )
        ]
        writer.writerow([*cells, *map(_safe, joined)])
    return file.getvalue()


def _safe(cell: object) -> object:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
