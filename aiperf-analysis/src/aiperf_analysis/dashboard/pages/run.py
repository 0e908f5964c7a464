"""A run: what it measured, on which machine, and whether it can be trusted."""

import functools
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote

from aiperf_analysis.dashboard import shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document, rows
from aiperf_analysis.dashboard.pages.fleets import FLEETS
from aiperf_analysis.dashboard.pages.kinds import Kept, Kind
from aiperf_analysis.dashboard.pages.loads import LOADS
from aiperf_analysis.lines import RowLine, name_of
from aiperf_analysis.selection import Measured, Selection
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core.errors import BundleError
from aiperf_core.render.report.content import Report, Section, report
from aiperf_core.render.report.html import glance
from aiperf_core.report import sample_charts as charts
from aiperf_core.report.result import LeftOut, Result, Table
from aiperf_core.report.sample_charts import Chart
from aiperf_core.stats.best import best_variant

DRAWN = 12  # targets with pictures


def page(asked: Asked) -> View:
    """The run with the id of the address."""
    selection = asked.site.source.of_run(asked.path["id"])
    lines = () if selection.runs else asked.site.source.rows_without_folder(asked.path["id"])
    if lines:
        return _without_folder(asked, selection.unreadable, lines)
    run = run_of(selection, asked.path["id"])
    return View(
        template="run.html.jinja",
        title=name_of(run),
        data={
            "run": run,
            "id": id_of(run),
            "report": (found := content(asked, selection, run)),
            "glance": glance(found, lambda origin: f"#{quote(origin.target or '')}"),
            "chapters": _chapters(found),
            "recheck": None,
            "kinds": [(kind, _kept(kind, run)) for kind in (LOADS, FLEETS)],
            "pictures": asked.site.kept(("pictures", id_of(run)), lambda: _pictures(selection, run)),
        },
        command=["show", run.path],
        api=f"/api/v1/bundles/{id_of(run)}",
        csv=True,
        crumbs=[("Runs", "/runs")],
    )


def _chapters(of: Report) -> list[tuple[str, list[Section]]]:
    """The sections of a report by chapter, in the order of the report."""
    found: dict[str, list[Section]] = {}
    for section in of.sections:
        found.setdefault(section.result.target.partition(".")[0], []).append(section)
    return list(found.items())


def _without_folder(asked: Asked, unreadable: Sequence[LeftOut], lines: Sequence[RowLine]) -> View:
    """A run of a store whose files cannot be read: why, and its rows."""
    result = Result(
        analysis="bundle",
        title=unreadable[0].what,
        summary=[one.reason for one in unreadable],
        tables=[Table("rows", "Rows", rows.COLUMNS, [rows.record(one) for one in lines])],
    )
    tables = [rows.shown_table(one) for one in result.tables]
    crumbs = [("Runs", "/runs")]
    return document.view(asked, result, title=result.title, tables=tables, filtered=False, api="", crumbs=crumbs)


def _kept(kind: Kind, run: Measured) -> list[Kept]:
    # The page of all documents of the kind says why those of a bundle cannot be listed.
    with suppress(BundleError):
        return kind.of_run(run)
    return []


def _pictures(selection: Selection, run: Measured) -> dict[str, list[Chart]]:
    """The pictures of the first targets by their names. Points of speedups lead to their raw samples."""
    if run.bundle is None:
        return {}
    found: dict[str, list[Chart]] = {}
    for name in dict.fromkeys(one.result.target for one in selection.every if one.run is run):
        if len(found) == DRAWN:
            break
        # A damaged target has no pictures; its part of the page says what is wrong.
        with suppress(BundleError):
            result = run.bundle.target(name)
            link = functools.partial(shown.row_address, id_of(run), name)
            found[name] = charts.of_target(result, best_variant(result), link)
    return found


def content(asked: Asked, selection: Selection, run: Measured) -> Report:
    """The texts and figures of the run's report page."""
    results = list({id(one.result): one.result for one in selection.every if one.run is run}.values())
    issues = {name: issue.record for name, issue in asked.site.plugins.issues.items()}
    return report(name_of(run), run.manifest, results, issues, skipped=run.manifest.skipped)
