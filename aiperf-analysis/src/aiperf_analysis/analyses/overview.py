"""What the results say altogether: verdicts, gains, and what was not believed."""

from collections import Counter

from attrs import asdict

from aiperf_analysis.options import NoOptions
from aiperf_analysis.result import Axis, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted, figure
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.results.models import Row
from aiperf_core.stats.best import best_of


def analyze(selection: Selection, options: NoOptions) -> Result:
    """Count the verdicts of the newest results of each target, and list the best variant of each.

    The gain of a target is the figure of its best variant: the speedup, or the memory gain where memory is the goal.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    groups = newest.targets()
    records: list[Record] = []
    points: list[Point] = []
    for (_, name), entries in sorted(groups.items(), key=lambda pair: pair[0][1]):
        best = _best(entries)
        row = best.row if best else None
        gain = _gain(row, entries[0].result.goal)
        records.append(
            Record(
                {
                    "target": name,
                    "class": entries[0].hardware,
                    "goal": entries[0].result.goal,
                    "best": row.name if row else None,
                    "verdict": row.verdict.value if row else None,
                    "gain": gain,
                },
                [best.origin] if best else [],
            )
        )
        if best and gain.value is not None:
            place = Figure(value=float(len(points)), unit="count", certainty="counted")
            points.append(
                Point(label=f"{name}:{best.row.name}", x=gain, y=place, mark=best.row.verdict.value, origin=best.origin)
            )
    verdicts = Counter(one.row.verdict.value for one in newest.every if one.row.role == "variant")
    counts = [Record({"verdict": name, "rows": counted(count, "count")}) for name, count in verdicts.most_common()]
    message = f"{units.plural('target', len(groups))} in {units.plural('bundle', len(newest.runs))}: " + ", ".join(
        f"{count} {name}" for name, count in verdicts.most_common()
    )
    columns = [
        Column("target", "target"),
        Column("class", "kind of machine"),
        Column("goal", "goal"),
        Column("best", "best variant"),
        Column("verdict", "verdict", "verdict"),
        Column("gain", "gain", "figure"),
    ]
    return Result(
        analysis="overview",
        title="Overview",
        summary=[f"{message}."],
        tables=[
            Table("targets", "newest result of each target", columns, records),
            Table("verdicts", "verdicts of variants", [Column("verdict", "verdict", "verdict"),
                  Column("rows", "rows", "figure")], counts),
        ],
        drawings=[
            Drawing(
                name="gains",
                title="Gain of the best variant of each target",
                kind="intervals",
                message=message,
                x=Axis(title="gain over the baseline", log=True),
                y=Axis(title="target", unit="count"),
                series=[Series(name="best variant", points=points)],
            )
        ],
        options=asdict(options),
        left_out=newest.left_out,
        sources=newest.sources,
    )  # fmt: skip


def _best(entries: list[Entry]) -> Entry | None:
    row = best_of([one.row for one in entries], entries[0].result.goal)
    return next((one for one in entries if one.row is row), None)


def _gain(row: Row | None, goal: str) -> Figure:
    if row is None:
        return Figure(value=None, reason="no variant is believed")
    if goal == "memory":
        return counted(row.memory_gain, reason="no memory was measured")
    return figure(row.speedup, reason="the row has no speedup")
