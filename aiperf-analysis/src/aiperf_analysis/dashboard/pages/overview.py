"""The first page: the last runs, what got worse, coverage, and what is not trusted."""

from collections.abc import Sequence

from attrs import evolve, frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import runs
from aiperf_analysis.dashboard.source import id_of
from aiperf_analysis.result import Column, Record, Result, Table
from aiperf_analysis.selection import Entry, Selection
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.results.models import DISBELIEVED, Verdict

LAST_RUNS = 10
WORSE = ("REGRESSION", "SUSPECT")
STEPPED = "WORSE"
MOST = 12  # lines of a list; the page behind it has all


@frozen(kw_only=True)
class Distrusted:
    """A row of a newest result that is not believed."""

    target: str
    row: str
    verdict: str
    reason: str
    href: str


def page(asked: Asked) -> View:
    """The overview of what the filters select."""
    chosen = asked.filters
    selection = asked.site.source.selection(chosen)
    latest = selection.latest()
    worse, told = _worse(asked)
    distrusted = [_distrusted(one) for one in latest.every if one.row.verdict in DISBELIEVED]
    return View(
        template="overview.html.jinja",
        data={
            "lines": runs.lines(selection, chosen, LAST_RUNS),
            "runs": len(selection.runs),
            "unread": selection.unreadable,
            "counts": _counts(latest),
            "worse": worse,
            "told": told,
            "distrusted": distrusted[:MOST],
            "more_distrusted": max(0, len(distrusted) - MOST),
            "targets": sorted({one.result.target for one in latest.every}),
        },
        command=["analyze", *asked.site.source.arguments, *chosen.command],
        api=filters.with_query("/api/v1/overview", chosen.query),
        csv=True,
    )


def _counts(latest: Selection) -> list[tuple[str, int]]:
    """The verdicts of the variants of the newest results, in the order of `Verdict`."""
    found = [one.row.verdict for one in latest.every if one.row.role == "variant"]
    return [(verdict.value, found.count(verdict)) for verdict in Verdict if verdict in found]


def _worse(asked: Asked) -> tuple[shown.ShownTable | None, Sequence[str]]:
    """The series that got worse, and what the history says; else why there is none.

    A series got worse where its newest runs are worse, or where it is still behind its last step.
    """
    try:
        result = asked.site.result("history", asked.filters, {})
    except AiperfError as error:
        return None, [str(error)]
    series, stepped = result.tables[0], _last_steps(result)
    records = [
        one
        for one in series.records
        if one.cells.get("newest") in WORSE or stepped.get((one.cells.get("series"), one.cells.get("class"))) == STEPPED
    ]
    if not records:
        return None, ["No series got worse.", *result.summary]
    return shown.table(evolve(series, records=records[:MOST], note="")), result.summary


def _last_steps(result: Result) -> dict[tuple[object, object], object]:
    """The direction of the last step of each series."""
    steps = next((one.records for one in result.tables if one.name == "steps"), [])
    return {(one.cells.get("series"), one.cells.get("class")): one.cells.get("direction") for one in steps}


def _distrusted(one: Entry) -> Distrusted:
    return Distrusted(
        target=one.result.target,
        row=one.row.name,
        verdict=one.row.verdict.value,
        reason=one.row.reason or "no reason was recorded",
        href=shown.address_of(one.origin),
    )


def result(asked: Asked) -> Result:
    """The overview as a result: the last runs, the history, and what is not trusted."""
    selection = asked.site.source.selection(asked.filters)
    latest = selection.latest()
    counts = _counts(latest)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts) or "no variant has run"
    ids = {id_of(run): run.id for run in selection.runs}
    tables = [runs.table(runs.lines(selection, asked.filters, LAST_RUNS), ids), _verdicts(counts), _not_trusted(latest)]
    summary = [f"{units.plural('run', len(selection.runs))}; of the newest results: {told}."]
    try:
        history = asked.site.result("history", asked.filters, {})
        summary += history.summary
        tables += history.tables
    except AiperfError as error:
        summary.append(str(error))
    return Result(
        analysis="overview",
        title="Overview",
        summary=summary,
        tables=tables,
        left_out=selection.left_out,
        sources=selection.sources,
    )


def _verdicts(counts: list[tuple[str, int]]) -> Table:
    columns = [Column("verdict", "verdict", "verdict"), Column("rows", "variants", "figure")]
    records = [Record({"verdict": verdict, "rows": count}) for verdict, count in counts]
    return Table("verdicts", "Verdicts of the newest results", columns, records)


def _not_trusted(latest: Selection) -> Table:
    columns = [
        Column("row", "row"),
        Column("target", "target"),
        Column("verdict", "verdict", "verdict"),
        Column("reason", "why"),
    ]
    records = [
        Record(
            {"row": one.row.name, "target": one.result.target, "verdict": one.row.verdict.value,
             "reason": one.row.reason or "no reason was recorded"},
            [one.origin],
        )
        for one in latest.every
        if one.row.verdict in DISBELIEVED
    ]  # fmt: skip
    return Table("distrusted", "Not trusted", columns, records)
