"""All runs, newest first."""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.source import id_of
from aiperf_analysis.result import Column, Origin, Record, Result, Table
from aiperf_analysis.selection import Entry, Measured, Selection
from aiperf_core import units
from aiperf_core.results.models import DISBELIEVED


@frozen(kw_only=True)
class RunLine:
    """A run in a list.

    name: the name of its folder.
    ending: how it ended: empty where all is well.
    verdicts: the counts of verdicts of its variants, the most frequent first.
    distrusted: how many rows are not believed.
    """

    id: str
    name: str
    created: str
    hardware: str
    targets: tuple[str, ...]
    rows: int
    verdicts: tuple[tuple[str, int], ...]
    distrusted: int
    ending: str
    labels: tuple[tuple[str, str], ...]


def page(asked: Asked) -> View:
    """The runs that match the filters."""
    chosen = asked.filters
    selection = asked.site.source.selection(chosen)
    return View(
        template="runs.html.jinja",
        data={"lines": lines(selection), "unread": selection.unreadable},
        command=["results", "list", *asked.site.source.arguments] if not asked.filters.query else [],
        api=filters.with_query("/api/v1/bundles", chosen.query),
        csv=True,
    )


def lines(selection: Selection, most: int | None = None) -> list[RunLine]:
    """The runs of a selection as lines of a list."""
    kept = selection.runs[:most]
    entries: dict[int, list[Entry]] = {id(run): [] for run in kept}
    for one in selection.every:
        if id(one.run) in entries:
            entries[id(one.run)].append(one)
    return [_line(run, entries[id(run)]) for run in kept if entries[id(run)] or not run.manifest.complete]


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
