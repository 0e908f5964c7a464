"""The differences between two traces, piece by piece; the parts add up to the total difference."""

from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from aiperf_core.analysis_options import option, takes_files
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Source,
    Table,
    counted,
)
from aiperf_core.stats.draws import block_means, ends
from aiperf_traces import breakdown, draws, paths, reading, totals, windows
from aiperf_traces.model import Kind, Trace
from aiperf_traces.report import NS
from aiperf_traces.totals import Key, Piece, Totals


@frozen
class Options:
    """Options of the comparison of traces."""

    window: str = option(
        windows.AUTO, "What is compared: 'steps' of the profiler, 'whole', or the name of a range.", metavar="NAME"
    )
    top: int = option(20, "Rows of the table of differences.")
    most_bytes: int = option(reading.MOST_BYTES, "The largest trace, unpacked.", metavar="BYTES")


@takes_files
def analyze(files: list[Path], options: Options) -> Result:
    """Compare two traces: what was added, what is gone, and what takes longer or shorter.

    Pieces are aligned by the normalised name of the kernel and the path of operators around it. Times are of a window,
    such as a step; the parts and the idle time add up to the difference of the windows.
    """
    if len(files) != 2:
        raise UsageError(
            f"trace-diff compares two traces; {len(files)} were given. Usage: aiperf analyze trace-diff A B"
        )
    if options.top < 1:
        raise UsageError(f"--top takes a whole number from 1 on; got {options.top}.")
    before, after = (reading.read([path], options.most_bytes)[0] for path in files)
    a, b = _comparable(before, after, options.window)
    window = _difference(a.window, a.windows, b.window, b.windows)
    rows = sorted((_Row.of(key, a, b) for key in {*a.pieces, *b.pieces}), key=lambda one: (-abs(one.change), one.key))
    rest = _difference(a.rest, a.windows, b.rest, b.windows)
    origins = [Origin(before.path), Origin(after.path)]
    counts = {state: sum(one.state == state for one in rows) for state in STATES}
    records = [Record(one.cells(a, b), origins) for one in rows[: options.top]]
    others = rows[options.top :]
    if others:
        records.append(Record(_sum(f"({len(others):,} more)", sum(one.change for one in others)), origins))
    records.append(Record(_sum(f"({a.rest_name})", rest), origins))
    records.append(Record(_sum("(all: the window)", window), origins))
    what = "pieces of work" if a.on_device else "operators"
    longer = "longer" if window > 0 else "shorter"
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    lengths = [f"{one.window / one.windows * NS * 1e3:.4g} ms" for one in (a, b)]
    summary = [
        f"A window of B takes {abs(window) * NS * 1e3:.4g} ms {longer}: {lengths[1]} against {lengths[0]} of A."
        if window
        else f"A window takes {lengths[0]} in both traces.",
        f"{len(rows):,} {what}: {states}." if rows else f"Neither trace has {what} in the windows.",
    ]
    columns = [
        Column("name", "work" if a.on_device else "operator"),
        Column("path", "operators around it"),
        Column("state", "state", "verdict"),
        Column("change", "change of the window", "figure"),
        Column("calls_a", "calls A", "figure"),
        Column("calls_b", "calls B", "figure"),
        Column("call_a", "mean call A", "figure"),
        Column("call_b", "mean call B", "figure"),
        Column("ratio", "mean call B / A", "figure"),
    ]
    bars = [
        Point(label=_label(one.key, a.on_device), x=counted(one.change * NS, "s"), y=counted(0.0)) for one in rows[:12]
    ]
    bars.append(Point(label=a.rest_name, x=counted(rest * NS, "s"), y=counted(0.0)))
    return Result(
        analysis="trace-diff",
        title=f"Traces '{words(files[0].name)}' (A) and '{words(files[1].name)}' (B)",
        summary=summary,
        options=asdict(options),
        tables=[Table("differences", "change of a window, piece by piece", columns, records, "Changes add up.")],
        drawings=[
            Drawing(
                name="differences",
                title="Change of a window from A to B",
                kind="bars",
                message=summary[0],
                x=Axis(title="change of a window, less is better", unit="s"),
                y=Axis(title="piece"),
                series=[Series(name="change", points=bars)],
            )
        ],
        assumptions=_assumptions(before, after, a),
        sources=[Source(one.path, one.path, one.created, one.hardware) for one in (before, after)],
        details={
            "states": counts,
            "window_change_ns": window,
            "idle_change_ns": rest,
            "sum_of_changes_ns": sum(one.change for one in rows) + rest,
        },
    )


STATES = ("added", "gone", "slower", "faster", "more calls", "fewer calls", "alike", "not decided")


@frozen(eq=False)
class _Row:
    """A piece of both traces.

    change: nanoseconds of a window. ratio: of the mean calls, B to A.
    """

    key: Key
    a: Piece | None
    b: Piece | None
    change: float
    ratio: Figure
    state: str

    @staticmethod
    def of(key: Key, a: Totals, b: Totals) -> "_Row":
        first, second = a.pieces.get(key), b.pieces.get(key)
        change = _difference(first.alone if first else 0, a.windows, second.alone if second else 0, b.windows)
        ratio = _ratio(first, second)
        return _Row(key, first, second, change, ratio, _state(first, second, ratio, a.windows, b.windows))

    def cells(self, a: Totals, b: Totals) -> dict[str, Cell]:
        none = np.empty(0, dtype=np.int64)
        left, right = (one.lengths if one else none for one in (self.a, self.b))
        return {
            "name": self.key[1],
            "path": paths.shown(self.key[2]) or None,
            "state": self.state,
            "change": counted(self.change * NS, "s"),
            "calls_a": counted(len(left) / a.windows, "count"),
            "calls_b": counted(len(right) / b.windows, "count"),
            "call_a": draws.mean(left, NS, "s", "not in A"),
            "call_b": draws.mean(right, NS, "s", "not in B"),
            "ratio": self.ratio,
        }


def _sum(name: str, change: float) -> dict[str, Cell]:
    empty: dict[str, Cell] = dict.fromkeys(("path", "state", "calls_a", "calls_b", "call_a", "call_b", "ratio"))
    return {"name": name, "change": counted(change * NS, "s"), **empty}


def _difference(a: int, windows_a: int, b: int, windows_b: int) -> float:
    """B minus A, of a window; of integers as long as possible, so that parts add up."""
    return (b * windows_a - a * windows_b) / (windows_a * windows_b)


def _ratio(a: Piece | None, b: Piece | None) -> Figure:
    if a is None or b is None:
        return Figure(value=None, reason="it is in one trace only")
    least = min(len(a.lengths), len(b.lengths))
    if least < draws.LEAST:
        return Figure(value=None, reason=f"an interval needs {draws.LEAST} calls in each trace; there are {least}")
    bottom = block_means(a.lengths)
    if not bottom.min() > 0:
        return Figure(value=None, reason="calls of A take no time")
    low, high = (float(end) for end in ends(block_means(b.lengths, seed=1) / bottom))
    return Figure(value=float(b.lengths.mean() / a.lengths.mean()), low=low, high=high)


def _state(a: Piece | None, b: Piece | None, ratio: Figure, windows_a: int, windows_b: int) -> str:
    if a is None:
        return "added"
    if b is None:
        return "gone"
    if ratio.low is not None and ratio.low > 1:
        return "slower"
    if ratio.high is not None and ratio.high < 1:
        return "faster"
    more = len(b.lengths) * windows_a - len(a.lengths) * windows_b
    if more:
        return "more calls" if more > 0 else "fewer calls"
    return "alike" if ratio.value is not None else "not decided"


def _comparable(before: Trace, after: Trace, wanted: str) -> tuple[Totals, Totals]:
    """The totals of two traces. Raises UsageError where tools, windows or what was recorded differ."""
    if before.tool != after.tool:
        raise UsageError(
            f"'{before.path}' is a trace of {before.tool}, '{after.path}' of {after.tool}; they name and time work "
            f"differently. Compare two traces of the same tool."
        )
    if wanted == windows.AUTO:
        steps = [bool((trace.slices.kind == Kind.STEP).any()) for trace in (before, after)]
        if steps[0] != steps[1]:
            names = (before.path, after.path) if steps[0] else (after.path, before.path)
            raise UsageError(
                f"'{names[0]}' has steps of the profiler and '{names[1]}' has none, so their windows differ. Record "
                f"both alike, or give --window whole or the name of a range that both have."
            )
    chosen = [windows.of(trace, wanted) for trace in (before, after)]
    devices = [breakdown.devices_of(trace) for trace in (before, after)]
    if bool(devices[0]) != bool(devices[1]):
        with_work, without = (before.path, after.path) if devices[0] else (after.path, before.path)
        raise UsageError(
            f"'{with_work}' has work of a GPU and '{without}' has none. Record both with the same activities."
        )
    compared = [
        totals.of_devices(trace, device, own) if device else totals.of_host(trace, own)
        for trace, device, own in zip((before, after), devices, chosen, strict=True)
    ]
    return compared[0], compared[1]


def _assumptions(before: Trace, after: Trace, a: Totals) -> list[str]:
    notes = [*before.notes, *after.notes]
    if a.on_device:
        notes.append("Where several pieces run at once, the time counts for compute, then communication, then copies.")
    notes.append("Intervals of calls are by the bootstrap over blocks of neighbouring calls of these two traces.")
    if before.hardware != after.hardware:
        notes.append(f"The hardware differs: {words(before.hardware)} (A) and {words(after.hardware)} (B).")
    return notes


def _label(key: Key, on_device: bool) -> str:
    return (paths.short(words(key[1])) if on_device else words(key[1]))[:60]
