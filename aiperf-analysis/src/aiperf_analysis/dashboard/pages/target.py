"""A target: its rows by kind of machine, its history, and why its variants are faster."""

from typing import Any

from attrs import evolve

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.pages.rows import COLUMNS, record, shown_table
from aiperf_analysis.history.judged import LEAST
from aiperf_analysis.lines import row_of
from aiperf_analysis.selection import Entry, Selection
from aiperf_analysis.sizes import Sizes, told_apart
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.report.result import Axis, Column, Drawing, Point, Record, Result, Series, Table, counted, figure
from aiperf_core.sweep import base_name


def page(asked: Asked) -> View:
    """The target with the name of the address."""
    name = _name(asked)
    result = of_target(asked)
    # A row of the only run leads to it.
    one_source: dict[str, Any] = {"sources": ()} if len(result.sources) == 1 else {}
    return document.view(
        asked,
        result,
        tables=[
            _shown_rows(one) if one.name == "rows" else shown.table(one) for one in map(_long, result.tables) if one
        ],
        **one_source,
        template="target.html.jinja",
        lesson=_lesson(asked, name),
        title=name,
        api=filters.with_query(f"/api/v1/targets/{shown.quoted(name)}", asked.filters.query),
        command=["analyze", "history", *asked.site.source.arguments, "--target", name],
    )


def _lesson(asked: Asked, name: str) -> str:
    """The address of the lesson; empty where the target is not installed here, or lessons are not shown."""
    installed = {target.name for target in asked.site.plugins.targets if asked.site.settings.shows_lessons}
    return f"/lesson/{shown.quoted(base_name(name))}" if base_name(name) in installed else ""


def _shown_rows(one: Table) -> shown.ShownTable:
    """The newest results, figures and verdict first; size and machine stand once where all rows share them."""
    shared = {key: {record.cells.get(key) for record in one.records} for key in ("size", "class")}
    texts = [str(text) for key in shared if len(shared[key]) == 1 for text in shared[key] if text]
    into = {"role": "row", **{key: "row" if len(found) > 1 else "" for key, found in shared.items()}}
    found = shown_table(
        evolve(one, note=f"{', '.join(texts)}." if texts else ""), {**into, "target": "", "reason": "verdict"}
    )
    return shown.arranged(evolve(found, tips=("reason",)), ("row", "time_s", "speedup", "verdict"))


def _long(one: Table) -> Table | None:
    """A table without the series that are too short for steps, and none where no series is left."""
    if one.name not in ("series", "steps"):
        return one
    records = [record for record in one.records if one.name == "steps" or _runs(record) >= LEAST]
    return evolve(one, records=records, note="") if records else None


def _runs(series: Record) -> int:
    runs = series.cells["runs"]
    return runs if isinstance(runs, int) else 0


def of_target(asked: Asked) -> Result:
    """What is known of a target. Raises NotFoundError for a name without results."""
    name = _name(asked)
    chosen = evolve(asked.filters, targets=(shown.literal(name),))
    selection = asked.site.source.selection(chosen)
    if not selection.every:
        raise NotFoundError(f"there is no result of '{words(name[:200])}' here. The targets: /rows")
    own = {one.run.id for one in selection.every}
    latest = selection.latest()
    history = _history(asked, name)
    about = selection.every[0].result
    found = Result(
        analysis="target",
        title=about.summary or name,
        summary=[
            f"{units.plural('run', len(own))}; newest results of {_classes(latest)}.",
            *(f"No gain is expected here: {one}" for one in {one.result.no_gain for one in latest.every} if one),
        ],
        options={"target": name},
        tables=[_rows(latest), *_whys(latest), *(history.tables if history else [])],
        drawings=[*_speedups(latest), *(history.drawings if history else [])],
        left_out=[one for one in selection.left_out if one.origin and one.origin.target == about.target],
        sources=[one for one in selection.sources if one.id in own],
    )
    return told_apart(found, selection.every)


def _name(asked: Asked) -> str:
    """The name of the target that the address names."""
    given = asked.path["t"]
    every = asked.site.source.selection().every if given.startswith("sha256:") else ()
    return next((one.result.target for one in every if shown.is_named(one.result.target, given)), given)


def _history(asked: Asked, name: str) -> Result | None:
    try:
        return asked.site.result("history", evolve(asked.filters, targets=(shown.literal(name),)), {})
    except AiperfError:
        return None


def _classes(latest: Selection) -> str:
    return ", ".join(sorted({one.hardware for one in latest.every}))


def _rows(latest: Selection) -> Table:
    return Table(
        "rows", "Newest results", COLUMNS, [record(row_of(one)) for one in latest.every if one.row.role != "control"]
    )


def _whys(latest: Selection) -> list[Table]:
    whys = {one.row.name: one.row.why for one in latest.every if one.row.why}
    if not whys:
        return []
    records = [Record({"row": name, "why": why}) for name, why in whys.items()]
    return [Table("whys", "Why", [Column("row", "implementation"), Column("why", "mechanism")], records)]


def _speedups(latest: Selection) -> list[Drawing]:
    """The speedups of the variants of the newest results."""
    groups: dict[str, list[Entry]] = {}
    for one in latest.entries:
        if one.row.speedup is not None:
            groups.setdefault(one.hardware, []).append(one)
    if not groups:
        return []
    every = [one for some in groups.values() for one in some]
    best = max(every, key=lambda one: one.row.speedup.value if one.row.speedup else 0.0)
    size = Sizes.among(every).label(best.result.target, best.result.problem.params)
    size = f" with {size}" if size else ""
    shown_best = units.ratio_estimate(best.row.speedup).value if best.row.speedup else ""
    series = [
        Series(
            name=name,
            points=[
                Point(
                    label=one.row.name,
                    x=figure(one.row.speedup),
                    y=counted(float(index), "count"),
                    mark=one.row.verdict.value,
                    origin=one.origin,
                )
                for index, one in enumerate(some)
            ],
        )
        for name, some in groups.items()
    ]
    return [
        Drawing(
            name="speedups",
            title="Speedups over the baseline",
            kind="intervals",
            message=f"{best.row.name}{size} has the largest speedup, {shown_best}, on {best.hardware}.",
            x=Axis(title="speedup (larger is better)", log=True),
            y=Axis(title="implementation", unit="count"),
            series=series,
        )
    ]
