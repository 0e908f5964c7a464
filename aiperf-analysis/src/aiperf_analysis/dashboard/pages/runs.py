"""All runs, newest first."""

from collections import Counter
from collections.abc import Mapping, Sequence

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages.lines import RunLine
from aiperf_analysis.documents import sealed_names
from aiperf_analysis.selection import Entry, Measured, Selection
from aiperf_analysis.sources.filters import Filters
from aiperf_analysis.sources.source import id_of
from aiperf_core import units
from aiperf_core.report.result import Column, Origin, Record, Result, Table
from aiperf_core.results.models import DISBELIEVED


def page(asked: Asked) -> View:
    """The runs that match the filters."""
    chosen = asked.filters
    if asked.site.large_store is not None and not chosen.query:
        from aiperf_analysis.dashboard.pages import large

        return large.runs(asked)
    selection = asked.site.source.selection(chosen)
    return View(
        template="runs.html.jinja",
        data={"lines": lines(selection, chosen), "unread": selection.unreadable, "page_number": 1, "page_count": 1},
        command=["results", "list", *asked.site.source.arguments] if not asked.filters.query else [],
        api=filters.with_query("/api/v1/bundles", chosen.query),
        csv=True,
    )


def lines(selection: Selection, chosen: Filters, most: int | None = None) -> list[RunLine]:
    """The runs of a selection as lines of a list. Where rows were selected, runs without any are left out."""
    entries: dict[int, list[Entry]] = {id(run): [] for run in selection.runs}
    for one in selection.every:
        entries[id(one.run)].append(one)
    kept = [run for run in selection.runs if entries[id(run)] or not chosen.narrows_rows]
    return [_line(run, entries[id(run)]) for run in kept[:most]]


def _line(run: Measured, entries: list[Entry]) -> RunLine:
    variants = Counter(one.row.verdict.value for one in entries if one.row.role == "variant")
    return RunLine(
        id=id_of(run),
        name=name_of(run),
        created=run.created,
        hardware=", ".join(dict.fromkeys(one.hardware for one in entries)),
        targets=tuple(dict.fromkeys(one.result.target for one in entries)),
        rows=len(entries),
        verdicts=tuple(variants.most_common()),
        distrusted=sum(one.row.verdict in DISBELIEVED for one in entries),
        ending="" if run.manifest.complete else "not complete",
        labels=tuple(sorted(run.manifest.labels.items())),
        loads=len(sealed_names(run.manifest, "load")),
        fleets=len(sealed_names(run.manifest, "fleet")),
    )


def name_of(run: Measured) -> str:
    """The name of the folder of a run."""
    return run.path.rstrip("/").rpartition("/")[2] or run.path


def result(shown: Sequence[RunLine], selection: Selection) -> Result:
    """Runs as a result."""
    ids = {id_of(run): run.id for run in selection.runs}
    return Result(
        analysis="bundles",
        title=units.plural("run", len(selection.runs)),
        summary=[f"{len(shown):,} of {units.plural('run', len(selection.runs))} are shown."],
        tables=[table(shown, ids)],
        left_out=list(selection.unreadable),
    )


def table(shown: Sequence[RunLine], ids: Mapping[str, str]) -> Table:
    """Runs as a table. `ids` has the seal or the path of each id."""
    columns = [
        Column("run", "run"),
        Column("created", "began"),
        Column("class", "machine"),
        Column("targets", "targets"),
        Column("rows", "rows", "figure"),
        Column("loads", "loads", "figure"),
        Column("fleets", "fleets", "figure"),
        Column("distrusted", "not trusted", "figure"),
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
                "ending": one.ending or None,
                "labels": ", ".join(f"{name}={value}" for name, value in one.labels) or None,
                "id": one.id,
            },
            [Origin(ids[one.id])],
        )
        for one in shown
    ]
    return Table("runs", "Runs", columns, records)
