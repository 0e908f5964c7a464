"""A recheck of a run: its seal, and its figures computed again from its samples. Nothing on disk is changed."""

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.lines import name_of
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core.errors import AiperfError


def page(asked: Asked) -> View:
    """Recheck the run with the id of the address, and show what was found."""
    run = run_of(asked.site.source.of_run(asked.path["id"]), asked.path["id"])
    if run.bundle is None:
        raise AiperfError("the folder of this bundle is gone, so there are no samples to compute from.")
    from aiperf_core.stats.recheck import recheck

    return View(
        template="recheck.html.jinja",
        title=f"Recheck of {name_of(run)}",
        data={"found": recheck(run.bundle, documents=asked.site.plugins.known_documents)},
        command=["recheck", run.path],
        crumbs=[("Runs", "/runs"), (name_of(run), f"/run/{id_of(run)}")],
    )
