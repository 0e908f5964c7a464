"""All rows: every implementation of every run, with filters, a search and pages."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aiperf_analysis import sizes
from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.site import whole_number
from aiperf_analysis.selection import Entry
from aiperf_analysis.sources.source import run_id
from aiperf_core import units
from aiperf_core.report.metrics import SUMMARY
from aiperf_core.report.result import Cell, Column, Figure, Origin, Record, Result, Table, counted, figure
from aiperf_core.results.models import DISBELIEVED, Verdict

if TYPE_CHECKING:
    from aiperf_analysis.store.reading import BoardRow

LIMIT = 200  # rows of a page
FOLDED = {"role": "row", "size": "target", "class": "target", "reason": "verdict"}
COLUMNS = [
    Column("row", "implementation"),
    Column("target", "target"),
    sizes.COLUMN,
    Column("class", "machine"),
    Column("role", "role"),
    Column("verdict", "verdict", "verdict"),
    *(Column(metric.key, metric.title, "figure") for metric in SUMMARY),
    Column("series", "over time"),
    Column("created", "run"),
    Column("reason", "reason"),
]


def record(one: Entry) -> Record:
    """A row as a record of a table."""
    row = one.row
    return _record(
        one.origin,
        {metric.key: metric.of(one.result, row) for metric in SUMMARY},
        params=one.result.problem.params,
        hardware=one.hardware,
        role=row.role,
        verdict=row.verdict,
        reason=row.reason,
        created=one.run.created,
        series=one.key.digest,
    )


def stored_record(one: "BoardRow") -> Record:
    """A row of a large store as the same record. The store has no figures of a row that is not believed."""
    why = one.reason or "not measured"
    light = None if one.light_fraction is None else 100 * one.light_fraction
    figures = {
        "time_s": figure(one.time_s, "s", reason=why),
        "speedup": figure(one.speedup, reason=why),
        "speed_of_light_fraction": counted(light, "%", why),
        "peak_bytes": counted(one.peak_bytes, "B", why),
        "joules_per_call": counted(one.joules, "J", why),
    }
    return _record(
        Origin(one.bundle, one.target, one.row),
        figures,
        params=one.params,
        hardware=one.hardware,
        role=one.role,
        verdict=one.verdict,
        reason=one.reason,
        created=one.created,
        series=one.series,
    )


def _record(
    origin: Origin,
    figures: Mapping[str, Figure],
    *,
    params: Mapping[str, float],
    hardware: str,
    role: str,
    verdict: Verdict,
    reason: str | None,
    created: str,
    series: str,
) -> Record:
    """The cells of `COLUMNS`. A row that is not believed is in no series; nor is a control."""
    cells: dict[str, Cell] = {
        "row": origin.row,
        "target": origin.target,
        "size": sizes.text_of(params) or None,
        "class": hardware,
        "role": role,
        "verdict": verdict.value,
        **figures,
        "series": series if verdict not in DISBELIEVED and role != "control" else None,
        "created": created,
        "reason": reason,
    }
    return Record(cells, [origin])


def shown_table(one: Table) -> shown.ShownTable:
    """A table of rows, each with links to its series and its run. To be narrow, it has some texts below others."""
    found = shown.table(one)
    series, run = found.keys.index("series"), found.keys.index("created")
    leads = []
    for record in one.records:
        key, (origin,) = record.cells["series"], record.origins
        lead = {run: (str(record.cells["created"])[:16].replace("T", " "), f"/run/{run_id(origin.bundle)}")}
        leads.append(lead | ({series: ("all runs", f"/series/{shown.quoted(str(key))}")} if key else {}))
    return shown.folded(shown.linked(found, leads), FOLDED)


def page(asked: Asked) -> View:
    """A page of the rows that match."""
    if asked.site.large_store is not None and not asked.filters.query:
        from aiperf_analysis.dashboard.pages import large

        return large.rows(asked)
    found = matching(asked)
    pages = max(1, -(-len(found) // LIMIT))
    at = min(max(whole_number("page", asked.one("page", "1")), 1), pages)
    part = found[(at - 1) * LIMIT : at * LIMIT]
    pairs = [*asked.filters.query, *([("q", asked.one("q"))] if asked.one("q") else [])]
    shown_part = result(part, len(found))
    return document.view(
        asked,
        shown_part,
        tables=[shown_table(one) for one in shown_part.tables],
        api=filters.with_query("/api/v1/rows", pairs),
        template="rows.html.jinja",
        page_number=at,
        page_count=pages,
        here=filters.with_query("/rows", [*pairs, ("page", "")]),
    )


def matching(asked: Asked) -> list[Entry]:
    """The rows of the filters whose texts contain all words of `q`."""
    every = asked.site.source.selection(asked.filters).every
    wanted = asked.one("q").lower().split()
    if not wanted:
        return list(every)
    texts = asked.site.kept(("texts", repr(asked.filters)), lambda: [_text(one) for one in every])
    return [one for one, text in zip(every, texts, strict=True) if all(word in text for word in wanted)]


def _text(one: Entry) -> str:
    row, size = one.row, sizes.text_of(one.result.problem.params)
    return words_of(one.result.target, row.name, size, one.hardware, row.role, row.verdict.value, row.reason)


def words_of(*texts: str | None) -> str:
    """What a search looks into."""
    return " ".join(filter(None, texts)).lower()


def result(part: Sequence[Entry], whole: int) -> Result:
    """Rows as a result."""
    return Result(
        analysis="rows",
        title=units.plural("row", whole),
        summary=[f"{len(part):,} of {units.plural('row', whole)} are shown."],
        tables=[Table("rows", "Rows", COLUMNS, [record(one) for one in part])],
    )
