"""All rows: every implementation of every run, with filters, a search and pages."""

from collections.abc import Mapping, Sequence

from attrs import evolve

from aiperf_analysis import sizes
from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.lines import Lines, RowLine, run_id
from aiperf_core import units
from aiperf_core.report.metrics import SUMMARY
from aiperf_core.report.result import Cell, Column, Record, Result, Table

LIMIT = 200  # rows of a page
FOLDED = {"role": "row", "size": "target", "class": "target", "reason": "verdict"}
IN_TIPS = {key: column for key, column in FOLDED.items() if key != "size"}  # of a list with a line for each row
# What a reader looks for first: it stands before what a narrow window cuts off.
_TIME, _SPEEDUP, *_OTHERS = (Column(metric.key, metric.title, "figure") for metric in SUMMARY)
COLUMNS = [
    Column("row", "implementation"),
    Column("target", "target"),
    _TIME,
    _SPEEDUP,
    Column("verdict", "verdict", "verdict"),
    *_OTHERS,
    sizes.COLUMN,
    Column("class", "machine"),
    Column("role", "role"),
    Column("series", "over time"),
    Column("created", "run"),
    Column("reason", "reason"),
]


def record(line: RowLine) -> Record:
    """The cells of `COLUMNS`. A row that is not believed is in no series; nor is a control."""
    in_series = line.verdict.is_believed and line.role != "control"
    cells: dict[str, Cell] = {
        "row": line.row,
        "target": line.target,
        "size": sizes.text_of(line.params) or None,
        "class": line.hardware,
        "role": line.role,
        "verdict": line.verdict.value,
        **line.figures,
        "series": line.series if in_series else None,
        "created": line.created,
        "reason": line.reason,
    }
    return Record(cells, [line.origin])


def shown_table(one: Table, into: Mapping[str, str] = FOLDED) -> shown.ShownTable:
    """A table of rows, each with links to its series and its run. To be narrow, it has some texts below others.

    into: the columns whose texts stand below those of others.
    """
    found = shown.table(one)
    series, run = found.keys.index("series"), found.keys.index("created")
    leads = []
    for record in one.records:
        key, (origin,) = record.cells["series"], record.origins
        lead = {run: (str(record.cells["created"])[:16].replace("T", " "), f"/run/{run_id(origin.bundle)}")}
        leads.append(lead | ({series: ("all runs", f"/series/{shown.quoted(str(key))}")} if key else {}))
    return shown.folded(shown.linked(found, leads), into)


def page(asked: Asked) -> View:
    """A page of the rows that match."""
    lines = matching(asked)
    at, pages = asked.page_of(lines.total, LIMIT)
    part = result(lines.part((at - 1) * LIMIT, at * LIMIT), lines.total)
    pairs = [*asked.filters.query, *([("q", asked.one("q"))] if asked.one("q") else [])]
    return document.view(
        asked,
        part,
        tables=[evolve(shown_table(one, IN_TIPS), tips=("interval", "reason")) for one in part.tables],
        api=filters.with_query("/api/v1/rows", pairs),
        template="rows.html.jinja",
        page_number=at,
        page_count=pages,
        here=filters.with_query("/rows", [*pairs, ("page", "")]),
    )


def matching(asked: Asked) -> Lines[RowLine]:
    """The rows of the filters whose texts contain all words of `q`."""
    words = asked.one("q").lower().split()
    name = ("rows", repr(asked.filters), *words)
    return asked.site.kept(name, lambda: asked.site.source.rows(asked.filters, words))


def result(part: Sequence[RowLine], whole: int) -> Result:
    """Rows as a result."""
    return Result(
        analysis="rows",
        title=units.plural("row", whole),
        summary=[f"{len(part):,} of {units.plural('row', whole)} are shown."],
        tables=[Table("rows", "Rows", COLUMNS, [record(one) for one in part])],
    )
