"""Rows, runs, targets, series and samples by REST. Every answer is a `Result`; `details` has what is no table."""

from attrs import evolve

from aiperf_analysis import sizes
from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.api.paging import part
from aiperf_analysis.dashboard.asked import Asked
from aiperf_analysis.dashboard.pages import overview as overview_page
from aiperf_analysis.dashboard.pages import rows as rows_page
from aiperf_analysis.dashboard.pages import runs as runs_page
from aiperf_analysis.dashboard.pages import samples as samples_page
from aiperf_analysis.dashboard.pages import series as series_page
from aiperf_analysis.dashboard.pages import steps as steps_page
from aiperf_analysis.lines import name_of, row_of
from aiperf_analysis.selection import Entry
from aiperf_analysis.sources.courses import RunCourse
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core import units
from aiperf_core.report.result import Cell, Column, Origin, Record, Result, Table, figure
from aiperf_core.results import structure


def analysis(asked: Asked) -> Result:
    """The result of the analysis of the endpoint, as `aiperf analyze NAME --json` prints it."""
    return asked.site.result(asked.analysis, asked.filters, filters.others(asked.query))


def rows(asked: Asked) -> Result:
    """The rows that match, a part of them."""
    lines = rows_page.matching(asked)
    shown = part(asked, lines.total)
    result = rows_page.result(lines.part(shown.start, shown.stop), lines.total)
    return evolve(result, details=shown.details)


def overview(asked: Asked) -> Result:
    """What ran last, what got worse, and what is not trusted."""
    return overview_page.result(asked)


def bundles(asked: Asked) -> Result:
    """The runs that match, a part of them, newest first."""
    lines = runs_page.matching(asked)
    shown = part(asked, lines.total)
    result = runs_page.result(lines.part(shown.start, shown.stop), lines)
    return evolve(result, details=shown.details)


def bundle(asked: Asked) -> Result:
    """A run: its rows, and its manifest in `details`."""
    selection = asked.site.source.of_run(asked.path["id"])
    run = run_of(selection, asked.path["id"])
    own = [one for one in selection.every if one.run is run]
    return Result(
        analysis="bundle",
        title=name_of(run),
        summary=[f"{units.plural('row', len(own))} of a run that began at {units.moment(run.created)}."],
        options={"id": id_of(run)},
        tables=[Table("rows", "Rows", rows_page.COLUMNS, [rows_page.record(row_of(one)) for one in own])],
        details={"manifest": structure.document(run.manifest)},
    )


def samples(asked: Asked) -> Result:
    """The raw samples of the row `row` of the target `of` of a run, a part of them."""
    entry = samples_page.entry_of(asked)
    found, why_not = samples_page.read(entry)
    row = next((one for one in found.rows if one.name == entry.row.name), None) if found else None
    count = len(row.samples.block) if row else 0
    shown = part(asked, count)
    tables = [samples_page.samples_table(found, row, shown.start, shown.stop - shown.start)] if found and row else []
    return Result(
        analysis="samples",
        title=entry.name,
        summary=[why_not or f"{units.plural('sample', count)}."],
        options={"id": id_of(entry.run), "of": entry.result.target, "row": entry.row.name},
        tables=tables,
        details=shown.details,
    )


def targets(asked: Asked) -> Result:
    """The targets with results, and when each ran last."""
    found: dict[str, list[Entry]] = {}
    for one in asked.site.source.selection(asked.filters).every:
        found.setdefault(one.result.target, []).append(one)
    columns = [
        Column("target", "target"),
        Column("summary", "summary"),
        Column("runs", "runs", "figure"),
        Column("last", "last run"),
        Column("class", "machines"),
    ]
    records = []
    for name, entries in sorted(found.items()):
        newest = max(entries, key=lambda one: one.run.created)
        cells: dict[str, Cell] = {
            "target": name,
            "summary": newest.result.summary,
            "runs": len({one.run.id for one in entries}),
            "last": newest.run.created,
            "class": ", ".join(sorted({one.hardware for one in entries})),
        }
        records.append(Record(cells, [Origin(newest.run.id, name)]))
    return Result(
        analysis="target-list",
        title=units.plural("target", len(records)),
        summary=[f"{units.plural('target', len(records))} have results."],
        tables=[Table("targets", "Targets", columns, records)],
    )


def series_list(asked: Asked) -> Result:
    """The series: believed rows that may be pooled, each with the key of its address."""
    columns = [
        Column("key", "key"),
        Column("target", "target"),
        Column("row", "implementation"),
        Column("class", "machine"),
        Column("device", "device"),
        Column("params", "sizes"),
        Column("runs", "runs", "figure"),
    ]
    records = []
    for key, entries in asked.site.source.selection(asked.filters).series().items():
        cells: dict[str, Cell] = {
            "key": key.digest,
            "target": key.target,
            "row": key.implementation,
            "class": key.hardware,
            "device": key.device,
            "params": sizes.text_of(dict(key.params)),
            "runs": len(entries),
        }
        records.append(Record(cells, [entries[-1].origin]))
    shown = part(asked, len(records))
    return Result(
        analysis="series-list",
        title=units.plural("series", len(records)).removesuffix("s"),
        summary=["A series has the believed rows of one target, implementation, device, kind of machine and size."],
        tables=[Table("series", "Series", columns, records[shown.start : shown.stop])],
        details=shown.details,
    )


def series(asked: Asked) -> Result:
    """The points of a series in the order of time, and the steps of one of its figures."""
    found = asked.site.series(asked.path["key"])
    shown = part(asked, len(found))
    every, steps = series_page.of_metric(asked, found, series_page.metric_of(asked, found))
    return Result(
        analysis="series",
        title=found.title,
        summary=[f"{units.plural('run', len(found))} in the order of time.", steps.told],
        options={"key": asked.path["key"], "metric": steps.metric.name},
        tables=[_points(found, range(shown.start, shown.stop)), steps_page.table(steps, every)],
        details=shown.details,
    )


def _points(found: RunCourse, places: range) -> Table:
    columns = [
        Column("created", "run"),
        Column("commit", "commit"),
        Column("verdict", "verdict", "verdict"),
        Column("time", "median time", "figure"),
        Column("speedup", "speedup", "figure"),
    ]
    records = [
        Record(
            {
                "created": found.created[at],
                "commit": found.git[at],
                "verdict": found.verdict[at],
                "time": figure(found.figures["time"][at], "s"),
                "speedup": figure(found.figures["speedup"][at]),
            },
            [Origin(found.bundle[at], found.key.target, found.key.implementation)],
        )
        for at in places
    ]
    return Table("points", "Points", columns, records)
