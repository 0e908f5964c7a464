"""A run: what it measured, on which machine, and whether it can be trusted."""

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages.runs import name_of
from aiperf_analysis.dashboard.source import id_of, run_of
from aiperf_analysis.selection import Measured, Selection
from aiperf_core.render.report.content import Report, report


def page(asked: Asked) -> View:
    """The run with the id of the address."""
    selection = asked.site.source.selection()
    run = run_of(selection, asked.path["id"])
    return View(
        template="run.html.jinja",
        title=name_of(run),
        data={"run": run, "id": id_of(run), "report": content(asked, selection, run), "recheck": None},
        command=["show", run.path],
        api=f"/api/v1/bundles/{id_of(run)}",
        csv=True,
        crumbs=[("Runs", "/runs")],
    )


def content(asked: Asked, selection: Selection, run: Measured) -> Report:
    """The texts and figures of the run's report page."""
    results = list({id(one.result): one.result for one in selection.every if one.run is run}.values())
    issues = {name: issue.record for name, issue in asked.site.plugins.issues.items()}
    return report(name_of(run), run.manifest, results, issues, skipped=run.manifest.skipped)
