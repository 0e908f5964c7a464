"""Two runs: what differs between them first, then the ratios of what both measured."""

from urllib.parse import urlencode

from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.pages.runs import name_of
from aiperf_analysis.selection import Measured, Selection
from aiperf_analysis.sources.source import id_of, run_of
from aiperf_core import units
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    LeftOut,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Source,
    Table,
    counted,
    figure,
)
from aiperf_core.results.address import Address
from aiperf_core.stats.compare import Compared, Comparison, compare

MOST_PAIRS = 500  # of successive runs
SHOWN = 60  # ratios in a picture


def page(asked: Asked) -> View:
    """The comparison of the runs `a` and `b`, and a form that chooses them."""
    selection = asked.site.source.selection()
    chosen = [asked.one("a"), asked.one("b")]
    result, problem, runs = None, "", []
    if all(chosen):
        runs = [run_of(asked.site.source.of_run(one), one) for one in chosen]
        try:
            result = comparison(asked)
        except AiperfError as error:
            problem = str(error)
    pairs = _successive(selection)
    if not runs and len(selection.runs) < 2:
        problem = "A comparison needs two runs; there are fewer here."
    return document.view(
        asked,
        result,
        api=f"/api/v1/compare?{urlencode({'a': chosen[0], 'b': chosen[1]})}" if runs else "",
        command=["compare", *(run.path for run in runs)] if runs else (),
        template="compare.html.jinja",
        problem=problem,
        filtered=False,
        successive=pairs,
        every=[(id_of(run), f"{name_of(run)} ({units.moment(run.created)})") for run in selection.runs],
        # The newest pair that can be compared, until a reader chooses.
        chosen=[id_of(run) for run in runs] or [*(pairs[0][:2] if pairs else ("", ""))],
    )


def _successive(selection: Selection) -> list[tuple[str, str, str]]:
    """The pairs of a run and the run before it with a target and a size in common: their ids and a name of the pair."""
    targets: dict[str, set[object]] = {}
    for one in selection.every:
        targets.setdefault(one.run.id, set()).add((one.result.target, one.params))
    found = []
    for place, run in enumerate(selection.runs):
        own = targets.get(run.id, set())
        before = next((one for one in selection.runs[place + 1 :] if own & targets.get(one.id, set())), None)
        if before is not None:
            found.append(
                (id_of(before), id_of(run), f"{name_of(before)} and {name_of(run)} ({units.moment(run.created)})")
            )
    return found[:MOST_PAIRS]


def comparison(asked: Asked) -> Result:
    """The comparison as a result. Raises UsageError where a side is missing, or nothing can be compared."""
    if not asked.one("a") or not asked.one("b"):
        raise UsageError("compare needs two runs: a=ID and b=ID. The runs: /api/v1/bundles")
    left, right = (run_of(asked.site.source.of_run(asked.one(name)), asked.one(name)) for name in ("a", "b"))
    found = compare(_address(left), _address(right))
    compared = [row for row in found.rows if row.verdict]
    verdicts: dict[str, int] = {}
    for row in compared:
        if row.verdict:
            verdicts[row.verdict.value] = verdicts.get(row.verdict.value, 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in verdicts.items()) or "nothing was compared"
    return Result(
        analysis="compare",
        title=f"{name_of(left)} and {name_of(right)}",
        summary=[
            f"{units.plural('row', len(compared))} of both runs: {told}.",
            f"{units.plural('fact', len(found.differences))} of machine, software and options differ."
            if found.differences
            else "Machine, software, sources and options are the same.",
            "A ratio above 1 means that the second run is faster, or smaller where memory is the goal.",
        ],
        status="regression" if found.regressions else "ok",
        options={"a": left.id, "b": right.id},
        tables=[*_differences(found), _ratios(compared, left, right)],
        drawings=_drawn(compared, right),
        assumptions=["The two runs are not paired: their errors are independent."],
        left_out=[_not_compared(row, right) for row in found.rows if not row.verdict],
        sources=[Source(run.id, run.path, run.created, "") for run in (left, right)],
    )


def _address(run: Measured) -> Address:
    if run.bundle is None:
        raise AiperfError(f"the folder of '{name_of(run)}' is gone, and a comparison reads its results from there.")
    return Address(run.bundle)


def _differences(found: Comparison) -> list[Table]:
    if not found.differences:
        return []
    columns = [Column("what", "what differs"), Column("left", "first"), Column("right", "second")]
    records = [Record({"what": one.what, "left": one.left or None, "right": one.right or None})
               for one in found.differences]  # fmt: skip
    return [Table("differences", "What differs", columns, records)]


def _ratios(rows: list[Compared], left: Measured, right: Measured) -> Table:
    columns = [
        Column("row", "implementation"),
        Column("target", "target"),
        Column("verdict", "verdict", "verdict"),
        Column("ratio", "ratio", "figure"),
        Column("left", "first", "figure"),
        Column("right", "second", "figure"),
    ]
    records = []
    for row in rows:
        cells: dict[str, Cell] = {
            "row": row.implementation,
            "target": row.target,
            "verdict": row.verdict.value if row.verdict else None,
            "ratio": figure(row.ratio),
            "left": figure(row.left.time_s if row.left else None, "s"),
            "right": figure(row.right.time_s if row.right else None, "s"),
        }
        records.append(Record(cells, [Origin(run.id, row.target, row.implementation) for run in (left, right)]))
    return Table("ratios", "Ratios", columns, records)


def _drawn(rows: list[Compared], right: Measured) -> list[Drawing]:
    """The ratios with their intervals; those that are farthest from 1 where they are many."""
    shown = [row for row in rows if row.ratio and row.ratio.value > 0]
    shown.sort(key=lambda row: abs(row.ratio.value - 1) if row.ratio else 0, reverse=True)
    if not shown:
        return []
    slower = [row for row in shown if row.verdict and row.verdict.value in ("SLOWER", "LARGER")]
    told = f"{len(slower)} of {len(shown)} ratios are below 1 beyond the floor." if slower else (
        f"None of {len(shown)} ratios is below 1 beyond the floor."
    )  # fmt: skip
    points = [
        Point(
            label=f"{row.target}:{row.implementation}",
            x=figure(row.ratio),
            y=counted(float(index), "count"),
            mark=row.verdict.value if row.verdict else "",
            origin=Origin(right.id, row.target, row.implementation),
        )
        for index, row in enumerate(shown[:SHOWN])
    ]
    return [
        Drawing(
            name="ratios",
            title="Ratios of the two runs",
            kind="intervals",
            message=told,
            x=Axis(title="first / second (above 1: second better)", log=True),
            y=Axis(title="row", unit="count"),
            series=[Series(name="ratio", points=points)],
        )
    ]


def _not_compared(row: Compared, right: Measured) -> LeftOut:
    there = row.right or row.left
    return LeftOut(
        f"{row.target}:{row.implementation}",
        there.verdict.value if there else "",
        row.reason or "it was not compared",
        Origin(right.id, row.target, row.implementation) if row.right else None,
    )
