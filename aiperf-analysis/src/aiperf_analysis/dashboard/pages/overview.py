"""The first page: the last runs, what got worse, coverage, and what is not trusted."""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen
from markupsafe import Markup

from aiperf_analysis import sparkline
from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import runs
from aiperf_analysis.dashboard.site import Site
from aiperf_analysis.filters import Filters
from aiperf_analysis.lines import RECENT, Newest, RowLine
from aiperf_analysis.selection import Entry
from aiperf_analysis.sizes import COLUMN, Sizes, text_of, told_apart
from aiperf_analysis.sources.source import StoreSource
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report import cell_text, picture, sample_charts, svg
from aiperf_core.report.result import Column, Figure, Origin, Point, Record, Result, Table, counted, figure

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
NEWEST_WORSE = [
    Column("series", "series"),
    Column("class", "kind of machine"),
    Column("newest", "newest", "verdict"),
    Column("time", "newest time", "figure"),
    Column("change", "latest / expected", "figure"),
    Column("samples", "samples"),
]
NOTHING_WORSE = "No series got worse."
NOT_YET = "The history of all runs is being computed. This page then has it by itself."
AGAIN_S = 2  # until a browser looks whether the history is there
LAST_RUNS = 10
MOST = 12  # lines of a list; the page behind it has all


def page(asked: Asked) -> View:
    """The overview of what the filters select."""
    chosen = asked.filters
    lines, newest = runs.matching(asked), _newest(asked)
    found = asked.site.soon(("worse", repr(chosen)), lambda: worse_of(asked.site, chosen))
    worse, sentences = found or (None, [NOT_YET])
    several = Sizes.of((one.target, one.params) for one in newest.distrusted)
    return View(
        template="overview.html.jinja",
        data={
            "lines": lines.part(0, LAST_RUNS),
            "runs": lines.total,
            "unread": lines.left_out,
            "counts": newest.verdicts,
            "worse": worse,
            "told": sentences,
            "distrusted": [
                (one, several.label(one.target, one.params), shown.address_of(Origin(one.bundle, one.target, one.row)))
                for one in newest.distrusted
            ],
            "every_distrusted": newest.every_distrusted,
            "skipped": newest.skipped,
            "targets": len(newest.targets),
            "glance": asked.site.kept(("glance", repr(chosen)), lambda: glance(newest.best)),
            "courses": courses(newest),
            "recent": RECENT,
        },
        again_s=0 if found else AGAIN_S,
        command=["analyze", *asked.site.source.arguments, *chosen.command],
        api=filters.with_query("/api/v1/overview", chosen.query),
        csv=True,
    )


def glance(best: Sequence[RowLine]) -> Markup:
    """The speedups of the best variants; each mark leads to its raw samples. Empty where none has a speedup."""
    drawn = [one for one in best if one.figures["speedup"].value is not None]
    targets = Counter(one.target for one in drawn)
    points = [
        Point(
            label=f"{one.target}, {one.hardware} {one.device}" if targets[one.target] > 1 else one.target,
            x=one.figures["speedup"],
            y=counted(float(index), "count"),
            mark=one.verdict.value,
            origin=one.origin,
        )
        for index, one in enumerate(drawn)
    ]
    return picture.both(sample_charts.glance(points), shown.address_of) if points else Markup("")


@frozen
class Course:
    """The times of the best variant of a target over the last runs, as a small picture.

    name: the target without its chapter, and what tells it apart; title: all that names the series.
    """

    name: str
    title: str
    address: str
    time: str
    picture: Markup


def courses(newest: Newest) -> dict[str, list[Course]]:
    """The courses of the best variants that have at least two runs, by chapter."""
    chapters: dict[str, list[Course]] = {}
    for one in newest.best:
        times = newest.courses[one.series]
        if len(times) > 1:
            title = f"{one.target}:{one.row} on {one.hardware}, {one.device}: time of the last {len(times)} runs"
            chapter, _, name = one.target.partition(".")
            drawn = svg.markup(sparkline.picture(times, title))
            time = cell_text.text(one.figures["time_s"])
            address = f"/series/{shown.quoted(one.series)}"
            chapters.setdefault(chapter, []).append(Course(name or chapter, title, address, time, drawn))
    return chapters


def _newest(asked: Asked) -> Newest:
    return asked.site.kept(("newest", repr(asked.filters)), lambda: asked.site.source.newest(asked.filters, MOST))


def worse_of(site: Site, chosen: Filters) -> tuple[shown.ShownTable | None, Sequence[str]]:
    """The series that got worse, and what the history says; else why there is none.

    Of a folder by its whole history: a series got worse where its newest runs are worse, or where it is still behind
    its last step. Of a store, which may have a million rows, by the last runs of each series.
    """
    source = site.source
    if isinstance(source, StoreSource):
        return _worse_of_store(source, chosen)
    try:
        result = site.result("history", chosen, {})
    except AiperfError as error:
        return None, [str(error)]
    steps = _last_steps(result)
    records = [found for one in result.tables[0].records if (found := _worsened(one, steps)) is not None]
    if not records:
        return None, [NOTHING_WORSE, *result.summary]
    return _table(WORSENED, records, any(one.cells["size"] for one in records)), result.summary


def _table(columns: Sequence[Column], records: list[Record], sized: bool) -> shown.ShownTable:
    """A table of series, with their sizes where these differ."""
    with_sizes = [columns[0], *([COLUMN] if sized else []), *columns[1:]]
    return shown.table(Table("worse", "What got worse", with_sizes, records[:MOST]))


def _worse_of_store(source: StoreSource, chosen: Filters) -> tuple[shown.ShownTable | None, Sequence[str]]:
    from aiperf_analysis.store import summaries

    worse, series = source.ask(lambda database: summaries.worse(database, chosen))
    sentence = (
        f"The newest runs of {series:,} series were held to their last {RECENT} runs. Older steps are in the "
        "history of a target."
    )
    if not worse:
        return None, [NOTHING_WORSE, sentence]
    worse = sorted(worse, key=lambda one: one.standing.change or 1.0, reverse=True)[:MOST]
    several = Sizes.of((one.key.target, dict(one.key.params)) for one in worse).differing
    records = [
        Record(
            {
                "series": f"{one.key.target}:{one.key.implementation}",
                "size": text_of(dict(one.key.params)) or None,
                "class": one.key.hardware,
                "newest": one.standing.word,
                "time": figure(one.newest, "s"),
                "change": Figure(value=one.standing.change, certainty="derived"),
                "samples": "of the newest run",
            }
        )
        for one in worse
    ]
    table = _table(NEWEST_WORSE, records, bool(several))
    leads = [
        {
            0: ("", f"/series/{shown.quoted(one.digest)}"),
            len(table.keys) - 1: ("", shown.row_address(one.bundle, one.key.target, one.key.implementation)),
        }
        for one in worse
    ]
    return shown.linked(table, leads), [sentence]


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


def result(asked: Asked) -> Result:
    """The overview as a result: the last runs, the history, and what is not trusted."""
    selection = asked.site.source.selection(asked.filters)
    latest = selection.latest()
    lines, counts = runs.matching(asked), _newest(asked).verdicts
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts) or "no variant has run"
    tables = [
        runs.table(lines.part(0, LAST_RUNS)),
        _verdicts(counts),
        _reasons("distrusted", "Not trusted", [one for one in latest.every if one.row.verdict.is_distrusted]),
        _reasons("skipped", "Did not run", [one for one in latest.every if one.row.is_skipped]),
    ]
    summary = [f"{units.plural('run', lines.total)}; of the newest results: {told}."]
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


def _verdicts(counts: Sequence[tuple[str, int]]) -> Table:
    columns = [Column("verdict", "verdict", "verdict"), Column("rows", "variants", "figure")]
    records = [Record({"verdict": verdict, "rows": count}) for verdict, count in counts]
    return Table("verdicts", "Verdicts of the newest results", columns, records)


def _reasons(name: str, title: str, entries: Sequence[Entry]) -> Table:
    """Rows with the reasons why they have no figures."""
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
        for one in entries
    ]  # fmt: skip
    return Table(name, title, columns, records)
