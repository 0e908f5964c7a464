"""The raw samples of a row: their course, their distribution, and each of them."""

import math

from attrs import evolve

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.lines import name_of
from aiperf_analysis.selection import Entry
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core import units
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.report import sample_charts as charts
from aiperf_core.report.result import Cell, Column, Figure, Record, Table
from aiperf_core.report.views import figures
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.best import best_variant

LIMIT = 500  # samples of a page


def page(asked: Asked) -> View:
    """The samples of the row `row` of the target `of` of a run."""
    entry = entry_of(asked)
    run = id_of(entry.run)
    result, why_not = read(entry)
    row = next((one for one in result.rows if one.name == entry.row.name), entry.row) if result else entry.row
    drawn, table, pages, at = [], None, 0, 0
    if result is not None and len(row.samples.block):
        drawn = _drawn(result, row)
        at, pages = asked.page_of(len(row.samples.block), LIMIT)
        table = samples_table(result, row, (at - 1) * LIMIT, LIMIT)
    where = [("of", shown.in_address(entry.result.target)), ("row", shown.in_address(entry.row.name))]
    return View(
        template="samples.html.jinja",
        title=f"{entry.result.target}: {entry.row.name}",
        data={
            "entry": entry,
            "run": run,
            "row": row,
            "result": entry.result,
            "figures": shown.table(figures(entry.result, row)) if entry.believed else None,
            "charts": drawn,
            "table_shown": shown.table(of_one_clock(table)) if table else None,
            "page_number": at,
            "page_count": pages,
            "why_not": why_not,
            "here": filters.with_query(f"/samples/{run}", where),
        },
        command=["show", f"{entry.run.path}:{entry.result.target}:{entry.row.name}"],
        api=filters.with_query(f"/api/v1/bundles/{run}/samples", where),
        csv=True,
        crumbs=[("Runs", "/runs"), (name_of(entry.run), f"/run/{run}")],
    )


def entry_of(asked: Asked) -> Entry:
    """The row that a request names. Raises NotFoundError."""
    selection = asked.site.source.of_run(asked.path["id"])
    run = run_of(selection, asked.path["id"])
    target, row = asked.one("of"), asked.one("row")
    for one in selection.every:
        if one.run is run and shown.is_named(one.result.target, target) and shown.is_named(one.row.name, row):
            return one
    known = [f"{one.result.target}:{one.row.name}" for one in selection.every if one.run is run]
    more = ", ".join(words(name) for name in known[:8])
    raise NotFoundError(f"this run has no row '{words(f'{target}:{row}'[:200])}'; it has: {more or 'none'}")


def read(entry: Entry) -> tuple[TargetResult | None, str]:
    """The target with its samples, or why there are none."""
    if entry.run.bundle is None:
        return None, "The folder of the bundle is gone; the store has its figures, not its samples."
    try:
        return entry.run.bundle.target(entry.result.target), ""
    except BundleError as error:
        return None, str(error)


def _drawn(result: TargetResult, row: Row) -> list[charts.Chart]:
    """The pictures of this row beside the others of its target."""
    target = charts.subject(result, best_variant(result))
    return charts.of_samples(target) if target.rows else []


def samples_table(result: TargetResult, row: Row, start: int, count: int) -> Table:
    """A part of the samples as a table."""
    samples = row.samples
    keys = {
        "round": "round", "block": "block", "device_s": "device time", "wall_s": "wall time", "cpu_s": "processor time",
        "calls": "calls", "throttled": "throttled", "judged": "compared",
    }  # fmt: skip
    columns_shown = [
        (key, title) for key, title in keys.items() if any(value is not None for value in getattr(samples, key))
    ]
    records = []
    for index in range(start, min(start + count, len(samples.block))):
        cells: dict[str, Cell] = {"sample": index}
        for key, _ in columns_shown:
            value = getattr(samples, key)[index]
            cells[key] = _seconds(value) if key.endswith("_s") else value
        records.append(Record(cells))
    columns = [Column("sample", "sample", "figure"), *(Column(key, title, "figure") for key, title in columns_shown)]
    note = f"All times cover all calls of a sample. {units.plural('sample', len(samples.block))} in all."
    return Table("samples", "Samples", columns, records, note)


CLOCKS = {"device_s": "device", "wall_s": "wall"}


def of_one_clock(table: Table) -> Table:
    """The table with the time and the clock of each sample, where no sample was timed by both clocks."""
    found = [[key for key in CLOCKS if _is_taken(one.cells.get(key))] for one in table.records]
    if any(len(clocks) != 1 for clocks in found) or len({clocks[0] for clocks in found}) == 1:
        return table
    place = min(index for index, column in enumerate(table.columns) if column.key in CLOCKS)
    columns = [one for one in table.columns if one.key not in CLOCKS]
    columns[place:place] = [Column("time", "time", "figure"), Column("clock", "clock")]
    records = [
        Record({**one.cells, "time": one.cells[clock], "clock": CLOCKS[clock]}, one.origins)
        for one, (clock,) in zip(table.records, found, strict=True)
    ]
    return evolve(table, columns=columns, records=records)


def _is_taken(cell: Cell) -> bool:
    return isinstance(cell, Figure) and cell.value is not None


def _seconds(value: float | None) -> Figure:
    if value is None or not math.isfinite(value):
        return Figure(value=None, unit="s", reason="not taken")
    return Figure(value=value, unit="s")
