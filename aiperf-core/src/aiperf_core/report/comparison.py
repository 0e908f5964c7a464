"""A comparison of two runs, or of two implementations, as a result."""

from collections.abc import Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.report import drawings
from aiperf_core.report.result import (
    Cell,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Origin,
    Record,
    Result,
    Source,
    Status,
    Table,
    counted,
    figure,
)
from aiperf_core.report.verdict_counts import tally
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.compare import Compared, Comparison, Difference

# The options of targets that may differ, as `stats.compare` names them behind the target.
OPTIONS = ("tier", "floor", "tolerance", "size", "device")
MOST_NAMES = 3  # of targets in a row; more are counted
MOST_DRAWN = 60  # ratios in a picture


@frozen
class Side:
    """A side of a comparison: its name for readers, and the run as the source of its figures."""

    name: str
    run: Source


def view(found: Comparison, left: Side, right: Side) -> Result:
    """Differences between the sides, then the ratios of what both measured."""
    compared = [row for row in found.rows if row.verdict]
    differences = difference_table(found.differences, "left", "right")
    return Result(
        analysis="compare",
        title=f"{left.name} (left) and {right.name} (right)",
        summary=[
            tally(row.verdict for row in compared if row.verdict) or "nothing was compared",
            f"{units.plural('fact', len(differences.records))} of machine, software, sources and options differ"
            if differences.records
            else "machine, software, sources and options are the same",
        ],
        status=_status(found),
        options={"a": left.run.id, "b": right.run.id},
        tables=[*([differences] if differences.records else []), _ratios(compared, left, right)],
        drawings=_drawings(compared, right),
        assumptions=[
            "the samples of both sides are paired, pass by pass"
            if found.paired
            else "the two runs are not paired: their errors are independent"
        ],
        left_out=_left_out([row for row in found.rows if not row.verdict], right),
        sources=[left.run, right.run],
    )


def _status(found: Comparison) -> Status:
    if found.regressions:
        return "regression"
    if found.distrusted:
        return "distrusted"
    return "ok" if any(row.verdict for row in found.rows) else "nothing"


def difference_table(differences: Sequence[Difference], left: str, right: str) -> Table:
    """Differences under the names of both sides. An option that differs alike for several targets is one row."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for difference in differences:
        target, dot, what = difference.what.rpartition(" ")
        option = bool(dot) and "." in target and what in OPTIONS
        key = (what if option else difference.what, difference.left, difference.right)
        alike.setdefault(key, []).extend([target] if option else [])
    columns = [Column("what", "what differs"), Column("left", left), Column("right", right)]
    records = [
        Record(
            {
                "what": f"{what} of {_some(targets)}" if targets else what,
                "left": before or None,
                "right": after or None,
            }
        )
        for (what, before, after), targets in alike.items()
    ]
    return Table("differences", "What differs", columns, records)


def _some(targets: list[str]) -> str:
    """The names, or their number where they are many."""
    return ", ".join(targets) if len(targets) <= MOST_NAMES else f"{len(targets)} targets"


def _ratios(rows: Sequence[Compared], left: Side, right: Side) -> Table:
    columns = [
        Column("target", "target"),
        Column("row", "implementation"),
        Column("left", "left", "figure"),
        Column("right", "right", "figure"),
        Column("ratio", "ratio", "figure"),
        Column("verdict", "verdict", "verdict"),
    ]
    records = []
    for row in rows:
        cells: dict[str, Cell] = {
            "target": row.target,
            "row": row.implementation,
            "left": _measured(row, row.left),
            "right": _measured(row, row.right),
            "ratio": _ratio(row),
            "verdict": row.verdict.value if row.verdict else None,
        }
        origins = [Origin(side.run.id, row.target, row.implementation) for side in (right, left)]
        records.append(Record(cells, origins))
    note = "A ratio above 1 means that the right side is faster, or smaller where memory is the goal."
    return Table("ratios", "Ratios", columns, records, note if records else "")


def _ratio(row: Compared) -> Figure:
    """The ratio; peaks are counted, so theirs has no interval."""
    return counted(row.ratio.value) if row.metric == "memory" and row.ratio else figure(row.ratio)


def _measured(compared: Compared, row: Row | None) -> Figure:
    """The figure of a side of which the ratio is made: a peak of memory where memory is the goal, else a time."""
    if compared.metric == "memory":
        return counted(row.memory.most_bytes if row and row.memory else None, "B")
    return figure(row.time_s if row else None, "s")


def _drawings(rows: Sequence[Compared], right: Side) -> list[Drawing]:
    """The ratios with their intervals; those that are farthest from 1 where they are many."""
    drawn = [row for row in rows if row.ratio and row.ratio.value > 0]
    drawn.sort(key=lambda row: abs(row.ratio.value - 1) if row.ratio else 0, reverse=True)
    if not drawn:
        return []
    worse = sum(row.verdict in (Verdict.SLOWER, Verdict.LARGER) for row in drawn)
    message = (
        f"{worse} of {len(drawn)} ratios are below 1 beyond the floor."
        if worse
        else f"None of {len(drawn)} ratios is below 1 beyond the floor."
    )
    return [
        drawings.of_ratios(
            "ratios",
            "Ratios of the two sides",
            message,
            "left / right (above 1: right is better)",
            [
                (Origin(right.run.id, row.target, row.implementation), _ratio(row), row.verdict.value)
                for row in drawn[:MOST_DRAWN]
                if row.verdict
            ],
        )
    ]


def _left_out(rows: Sequence[Compared], right: Side) -> list[LeftOut]:
    """Rows that were not compared: the implementations of a target that have the same reason together."""
    alike: dict[tuple[str, str], list[Compared]] = {}
    for row in rows:
        alike.setdefault((row.reason or "it was not compared", row.target), []).append(row)
    return [
        LeftOut(
            f"{target}: {', '.join(row.implementation for row in group)}",
            "",
            reason,
            Origin(right.run.id, target, group[0].implementation if len(group) == 1 else None)
            if any(row.right for row in group)
            else None,
        )
        for (reason, target), group in alike.items()
    ]
