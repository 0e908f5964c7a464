"""The first page: the last runs, what got worse, coverage, and what is not trusted."""

from collections.abc import Mapping, Sequence

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import runs
from aiperf_analysis.dashboard.pages.lines import LAST_RUNS, MOST, Distrusted
from aiperf_analysis.selection import Entry, Selection
from aiperf_analysis.sizes import COLUMN, Sizes, told_apart
from aiperf_analysis.sources.source import id_of
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.results.models import DISBELIEVED, Verdict

WORSE = ("REGRESSION", "SUSPECT")
STEPPED = "WORSE"
WORSENED = [
    Column("series", "series"),
    Column("class", "kind of machine"),
    Column("what", "what got worse"),
    Column("by", "change", "figure"),
    Column("level", "level now", "figure"),
    Column("newest", "newest", "verdict"),
]


def page(asked: Asked) -> View:
    """The overview of what the filters select."""
    chosen = asked.filters
    if asked.site.large_store is not None and not chosen.query:
        from aiperf_analysis.dashboard.pages import large

        return large.overview(asked)
    selection = asked.site.source.selection(chosen)
    latest = selection.latest()
    worse, told = _worse(asked)
    several = Sizes.among(latest.every)
    distrusted = [_distrusted(one, several) for one in latest.every if one.row.verdict in DISBELIEVED]
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
    steps = _last_steps(result)
    records = [found for one in result.tables[0].records if (found := _worsened(one, steps)) is not None]
    if not records:
        return None, ["No series got worse.", *result.summary]
    sized = [COLUMN] if any(one.cells["size"] for one in records) else []
    columns = [WORSENED[0], *sized, *WORSENED[1:]]
    return shown.table(Table("worse", "What got worse", columns, records[:MOST])), result.summary


def _worsened(series: Record, steps: Mapping[object, Record]) -> Record | None:
    """How a series got worse; None for one that did not. A step leads to its runs, else the newest run to its own."""
    newest, step = series.cells.get("newest"), steps.get(series.cells["key"])
    is_stepped = step is not None and step.cells.get("direction") == STEPPED
    if newest not in WORSE and not is_stepped:
        return None
    cells = {name: series.cells.get(name) for name in ("series", "key", "size", "class", "level", "newest")}
    if step is not None and is_stepped:
        what = f"a step at {units.moment(str(step.cells['at']))}"
        return Record({**cells, "what": what, "by": step.cells["change"]}, step.origins)
    return Record({**cells, "what": "the newest run", "by": series.cells.get("change")}, series.origins)


def _last_steps(result: Result) -> dict[object, Record]:
    """The last step of each series."""
    steps = next((one.records for one in result.tables if one.name == "steps"), [])
    return {one.cells["key"]: one for one in steps}


def _distrusted(one: Entry, several: Sizes) -> Distrusted:
    return Distrusted(
        target=one.result.target,
        row=one.row.name,
        size=several.label(one.result.target, one.result.problem.params),
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
    found = Result(
        analysis="overview",
        title="Overview",
        summary=summary,
        tables=tables,
        left_out=selection.left_out,
        sources=selection.sources,
    )
    return told_apart(found, selection.every)


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
