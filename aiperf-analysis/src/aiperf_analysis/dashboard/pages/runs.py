"""All runs, newest first."""

from collections.abc import Sequence

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.lines import Lines, RunLine
from aiperf_core import units
from aiperf_core.report.result import Column, Origin, Record, Result, Table

LIMIT = 200  # runs of a page


def page(asked: Asked) -> View:
    """A page of the runs that match the filters."""
    lines = matching(asked)
    at, pages = asked.page_of(lines.total, LIMIT)
    arguments = asked.site.source.arguments
    return View(
        template="runs.html.jinja",
        data={
            "lines": lines.part((at - 1) * LIMIT, at * LIMIT),
            "unread": lines.left_out,
            "page_number": at,
            "page_count": pages,
            "here": filters.with_query("/runs", [*asked.filters.query, ("page", "")]),
        },
        command=["db" if "--db" in arguments else "results", "list", *arguments] if not asked.filters.query else [],
        api=filters.with_query("/api/v1/bundles", asked.filters.query),
        csv=True,
    )


def matching(asked: Asked) -> Lines[RunLine]:
    """The runs that match the filters."""
    return asked.site.kept(("runs", repr(asked.filters)), lambda: asked.site.source.runs(asked.filters))


def result(part: Sequence[RunLine], lines: Lines[RunLine]) -> Result:
    """Runs as a result."""
    return Result(
        analysis="bundles",
        title=units.plural("run", lines.total),
        summary=[f"{len(part):,} of {units.plural('run', lines.total)} are shown."],
        tables=[table(part)],
        left_out=list(lines.left_out),
    )


def table(lines: Sequence[RunLine]) -> Table:
    """Runs as a table."""
    columns = [
        Column("run", "run"),
        Column("created", "began"),
        Column("class", "machine"),
        Column("targets", "targets"),
        Column("rows", "rows", "figure"),
        Column("loads", "loads", "figure"),
        Column("fleets", "fleets", "figure"),
        Column("distrusted", "not trusted", "figure"),
        Column("skipped", "did not run", "figure"),
        Column("ending", "ending"),
        Column("labels", "labels"),
        Column("id", "id"),
    ]
    records = [
        Record(
            {
                "run": one.name,
                "created": one.created,
                "class": one.hardware or None,
                "targets": ", ".join(one.targets) or None,
                "rows": one.rows,
                "loads": one.loads,
                "fleets": one.fleets,
                "distrusted": one.distrusted,
                "skipped": one.skipped,
                "ending": one.ending or None,
                "labels": ", ".join(f"{name}={value}" for name, value in one.labels) or None,
                "id": one.id,
            },
            [Origin(one.bundle)],
        )
        for one in lines
    ]
    return Table("runs", "Runs", columns, records)
