"""The first page: the last runs, what got worse, coverage, and what is not trusted."""

from attrs import frozen

from aiperf_analysis.dashboard import shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import runs
from aiperf_analysis.result import Result
from aiperf_analysis.selection import Entry, Selection
from aiperf_core.errors import AiperfError
from aiperf_core.results.models import DISBELIEVED, Verdict

LAST_RUNS = 10
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
    worse, why_not = _worse(asked)
    distrusted = [_distrusted(one) for one in latest.every if one.row.verdict in DISBELIEVED]
    return View(
        template="overview.html.jinja",
        data={
            "lines": runs.lines(selection, LAST_RUNS),
            "runs": len(selection.runs),
            "unread": selection.unreadable,
            "counts": _counts(latest),
            "worse": worse,
            "why_not": why_not,
            "distrusted": distrusted[:MOST],
            "more_distrusted": max(0, len(distrusted) - MOST),
            "targets": sorted({one.result.target for one in latest.every}),
        },
        command=["analyze", *asked.site.source.arguments, *chosen.command],
        api="/api/v1/overview" + (f"?{_joined(chosen.query)}" if chosen.query else ""),
        csv=True,
    )


def _joined(pairs: list[tuple[str, str]]) -> str:
    from urllib.parse import urlencode

    return urlencode(pairs)


def _counts(latest: Selection) -> list[tuple[str, int]]:
    """The verdicts of the variants of the newest results, in the order of `Verdict`."""
    found = [one.row.verdict for one in latest.every if one.row.role == "variant"]
    return [(verdict.value, found.count(verdict)) for verdict in Verdict if verdict in found]


def _worse(asked: Asked) -> tuple[shown.ShownTable | None, str]:
    """The table of the history with the series that got worse; why there is none."""
    try:
        result = asked.site.result("history", asked.filters, {})
    except AiperfError as error:
        return None, str(error)
    return _table_of(result), result.summary[0] if result.summary else ""


def _table_of(result: Result) -> shown.ShownTable | None:
    return shown.table(result.tables[0]) if result.tables and result.tables[0].records else None


def _distrusted(one: Entry) -> Distrusted:
    return Distrusted(
        target=one.result.target,
        row=one.row.name,
        verdict=one.row.verdict.value,
        reason=one.row.reason or "no reason was recorded",
        href=shown.address_of(one.origin),
    )
