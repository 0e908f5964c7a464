"""Overview, runs and rows of a large store: made by SQL, without reading results.

They are those pages without filters. With filters, and for analyses, pages read the newest results that match.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

from aiperf_analysis import sizes
from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.pages.lines import LAST_RUNS, MOST, Distrusted, RunLine
from aiperf_analysis.dashboard.pages.rows import COLUMNS, shown_table, stored_record, words_of
from aiperf_analysis.dashboard.site import Site, whole_number
from aiperf_analysis.sources.errors import GoneError
from aiperf_analysis.store import listing, reading, summaries
from aiperf_analysis.store.database import Database, StoreError, opened
from aiperf_core import units
from aiperf_core.report.result import Column, Figure, Record, Result, Table, figure
from aiperf_core.results.models import DISBELIEVED, Verdict

PAGE = 200  # lines of a page
Found = TypeVar("Found")


@frozen
class _Start:
    """What the overview shows beside the last runs."""

    counts: reading.Counts
    worse: list[summaries.Worse]
    series: int
    distrusted: list[summaries.Distrusted]
    every_distrusted: int
    targets: list[str]


def warm(site: Site) -> None:
    """Compute the overview and the rows once, so that the first reader need not wait."""
    _start(site)
    _board(site)


def _ask(site: Site, question: Callable[[Database], Found]) -> Found:
    store = site.large_store
    assert store is not None
    try:
        with opened(store.url) as database:
            return question(database)
    except StoreError as error:
        raise GoneError(str(error)) from error


def _start(site: Site) -> _Start:
    def compute(database: Database) -> _Start:
        few, count = summaries.distrusted(database, MOST)
        return _Start(reading.counts(database), *summaries.worse(database), few, count, summaries.targets(database))

    return site.kept(("overview",), lambda: _ask(site, compute))


def overview(asked: Asked) -> View:
    """The overview."""
    found = _start(asked.site)
    by_verdict = Counter[str]()
    for one in found.counts.newest:
        by_verdict[one.verdict] += one.rows
    told = [] if found.worse else ["No series got worse."]
    told.append(
        f"The newest runs of {found.series:,} series were held to their last {summaries.RECENT} runs. Older steps are "
        "in the history of a target."
    )
    return View(
        template="overview.html.jinja",
        data={
            "lines": _run_lines(asked, LAST_RUNS, 0),
            "runs": found.counts.bundles,
            "unread": [],
            "counts": [(one.value, by_verdict[one.value]) for one in Verdict if by_verdict[one.value]],
            "worse": _worse(found.worse) if found.worse else None,
            "told": told,
            "distrusted": _distrusted(found.distrusted),
            "more_distrusted": found.every_distrusted - len(found.distrusted),
            "targets": found.targets,
        },
        command=["analyze", *asked.site.source.arguments],
        api="/api/v1/overview",
        csv=True,
    )


def _distrusted(found: list[summaries.Distrusted]) -> list[Distrusted]:
    several = sizes.Sizes.of((one.target, one.params) for one in found)
    return [
        Distrusted(
            target=one.target,
            row=one.row,
            size=several.label(one.target, one.params),
            verdict=one.verdict,
            reason=one.reason or "no reason was recorded",
            href=shown.row_address(one.bundle, one.target, one.row),
        )
        for one in found
    ]


def _worse(found: list[summaries.Worse]) -> shown.ShownTable:
    """The series that got worse, those with the largest change first."""
    found = sorted(found, key=lambda one: one.standing.change or 1.0, reverse=True)[:MOST]
    several = sizes.Sizes.of((one.key.target, dict(one.key.params)) for one in found).differing
    columns = [
        Column("series", "series"),
        *([sizes.COLUMN] if several else []),
        Column("class", "kind of machine"),
        Column("newest", "newest", "verdict"),
        Column("time", "newest time", "figure"),
        Column("change", "newest / expected", "figure"),
        Column("samples", "samples"),
    ]
    records = [
        Record(
            {
                "series": f"{one.key.target}:{one.key.implementation}",
                "size": sizes.text_of(dict(one.key.params)) or None,
                "class": one.key.hardware,
                "newest": one.standing.word,
                "time": figure(one.newest, "s"),
                "change": Figure(value=one.standing.change, certainty="derived"),
                "samples": "of the newest run",
            }
        )
        for one in found
    ]
    table = shown.table(Table("worse", "What got worse", columns, records))
    leads = [
        {
            0: ("", f"/series/{shown.quoted(one.digest)}"),
            len(columns) - 1: ("", shown.row_address(one.bundle, one.key.target, one.key.implementation)),
        }
        for one in found
    ]
    return shown.linked(table, leads)


def _run_lines(asked: Asked, limit: int, offset: int) -> list[RunLine]:
    found = _ask(asked.site, lambda database: listing.listed(database, limit, offset))
    rows_of = _ask(asked.site, lambda database: summaries.verdicts(database, [one.id for one in found]))
    return [_run_line(one, rows_of.get(one.id, [])) for one in found]


def _run_line(one: listing.Stored, found: list[tuple[str, str, str, int]]) -> RunLine:
    variants, distrusted = Counter[str](), 0
    for _, role, verdict, count in found:
        variants[verdict] += count if role == "variant" else 0
        distrusted += count if Verdict(verdict) in DISBELIEVED else 0
    return RunLine(
        id=one.id,
        name=one.name,
        created=one.created,
        hardware=", ".join(one.hardware),
        targets=tuple(dict.fromkeys(target for target, *_ in found)),
        rows=one.rows,
        verdicts=tuple((verdict, count) for verdict, count in variants.most_common() if count),
        distrusted=distrusted,
        ending="" if one.complete else "not complete",
        labels=tuple(sorted(one.labels.items())),
        loads=len(one.loads),
        fleets=len(one.fleets),
    )


def runs(asked: Asked) -> View:
    """A page of the runs, newest first."""
    count = _start(asked.site).counts.bundles
    pages = max(1, -(-count // PAGE))
    at = min(max(whole_number("page", asked.one("page", "1")), 1), pages)
    return View(
        template="runs.html.jinja",
        data={"lines": _run_lines(asked, PAGE, (at - 1) * PAGE), "unread": [], "page_number": at, "page_count": pages},
        command=["db", "list", *asked.site.source.arguments],
        api="/api/v1/bundles",
        csv=True,
    )


def _board(site: Site) -> list[tuple[reading.BoardRow, str]]:
    """The rows, each with the text that a search looks into."""
    return site.kept(("board",), lambda: [(one, _text(one)) for one in _ask(site, reading.board)])


def rows(asked: Asked) -> View:
    """A page of the rows of the newest results whose texts contain all words of `q`."""
    wanted = asked.one("q").lower().split()
    every = _board(asked.site)
    found = [one for one, text in every if all(word in text for word in wanted)]
    pages = max(1, -(-len(found) // PAGE))
    at = min(max(whole_number("page", asked.one("page", "1")), 1), pages)
    part = found[(at - 1) * PAGE : at * PAGE]
    pairs = [("q", asked.one("q"))] if asked.one("q") else []
    stored = _start(asked.site).counts.rows
    result = Result(
        analysis="rows",
        title=units.plural("row", len(found)),
        summary=[
            f"{len(part):,} of {units.plural('row', len(found))} of the newest results are shown. The store has "
            f"{stored:,} rows: those of a run are on the page of the run, and those of an implementation in its series."
        ],
        tables=[Table("rows", "Rows of the newest results", COLUMNS, [stored_record(one) for one in part])],
    )
    return document.view(
        asked,
        result,
        api=filters.with_query("/api/v1/rows", pairs),
        template="rows.html.jinja",
        tables=[shown_table(one) for one in result.tables],
        page_number=at,
        page_count=pages,
        here=filters.with_query("/rows", [*pairs, ("page", "")]),
    )


def _text(one: reading.BoardRow) -> str:
    size = sizes.text_of(one.params)
    return words_of(one.target, one.row, size, one.hardware, one.role, one.verdict.value, one.reason)
