"""Where the time of runs went: set-up, sampling and checks of each target."""

from attrs import asdict, frozen

from aiperf_analysis.selection import Selection, required
from aiperf_core.analysis_options import option
from aiperf_core.report.result import Axis, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted

PARTS = {"setup": "setup_s", "sampling": "sampling_s", "checks": "checks_s"}


@frozen
class Options:
    """Options of this analysis: its fields are options of the command."""

    by: str = option("sampling", "Sort by this part.", metavar="PART", choices=tuple(PARTS))


def analyze(selection: Selection, options: Options) -> Result:
    """Show how long set-up, sampling and checks of each target took, the longest first.

    The times are the harness's own, one of each run, so they have no interval. They say what a run costs, and nothing
    about the speed of an implementation.
    """
    newest = selection.latest()
    # Raises an error with the reasons where no row is believed.
    required(newest.entries, newest)
    records = []
    for entries in newest.targets().values():
        first = entries[0]
        parts = {name: counted(getattr(first.result.overhead, field), "s") for name, field in PARTS.items()}
        records.append(Record({"target": first.result.target, "class": first.hardware, **parts}, [first.origin]))
    records.sort(key=lambda record: -_seconds(record, options.by))
    points = [
        Point(label=str(one.cells["target"]), x=counted(_seconds(one, options.by), "s"), y=counted(place, "count"))
        for place, one in enumerate(records)
    ]
    longest = f"{records[0].cells['target']} took longest for its {options.by}"
    return Result(
        analysis="effort",
        title="Where the time of runs went",
        summary=[f"{longest}."],
        tables=[
            Table(
                "targets",
                "seconds of each target",
                [
                    Column("target", "target"),
                    Column("class", "kind of machine"),
                    *(Column(name, name, "figure") for name in PARTS),
                ],
                records,
            )
        ],
        drawings=[
            Drawing(
                name="effort",
                title=f"Time of {options.by}",
                kind="bars",
                message=longest,
                x=Axis(title="time (less is better)", unit="s"),
                y=Axis(title="target", unit="count"),
                series=[Series(name=options.by, points=points)],
            )
        ],
        options=asdict(options),
        left_out=newest.left_out,
        sources=newest.sources,
    )


def _seconds(record: Record, part: str) -> float:
    cell = record.cells[part]
    return cell.value or 0.0 if isinstance(cell, Figure) else 0.0
