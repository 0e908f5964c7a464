"""What speed costs in memory, memory in speed, and speed in quality."""

from collections import Counter

from attrs import asdict

from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import NoOptions
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_core.results.models import Row
from aiperf_core.stats.verdicts import LEAST_BYTES

GAIN, LOSS, TRADE, LOSSY, OPEN = "GAIN", "LOSS", "TRADE", "LOSSY", "UNCLEAR"
TOLD = {
    GAIN: "better in one, worse in none",
    LOSS: "worse in one, better in none",
    TRADE: "one for the other",
    LOSSY: "better in time or memory, paid with quality",
    OPEN: "the time may or may not differ",
}


def analyze(selection: Selection, options: NoOptions) -> Result:
    """Compare time, peak memory and quality of each variant with its baseline's.

    GAIN: better in one, worse in none. LOSS: the reverse. TRADE: one is paid with the other, at a rate in bytes for
    each 1 % of the time. LOSSY: a gain that is paid with quality. UNCLEAR: no difference of the time is proven. Memory
    differs from 1 MiB and the floor of the target on. The rate's interval is that of the time.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    records: list[Record] = []
    points: dict[str, list[Point]] = {}
    left_out: list[LeftOut] = []
    for one in newest.entries:
        if one.row.role != "variant":
            continue
        reason = _missing(one)
        if reason:
            left_out.append(LeftOut(one.name, one.row.verdict.value, reason, one.origin))
            continue
        record, kind = _record(one)
        records.append(record)
        points.setdefault(kind, []).append(_point(one, kind))
    if not records:
        told = "; ".join(
            f"{count} x {reason}" for reason, count in Counter(one.reason for one in left_out).most_common(3)
        )
        raise AiperfError(
            f"no variant has both a speedup and a peak of memory{f' ({told})' if told else ''}, so there is nothing to "
            "trade. Run more targets: aiperf run PATTERN"
        )
    counts = Counter(str(record.cells["kind"]) for record in records)
    message = ", ".join(f"{counts[kind]} {kind}" for kind in TOLD if counts[kind])
    return Result(
        analysis="tradeoff",
        title="Speed against memory",
        summary=[f"{units.plural('variant', len(records))}: {message}."],
        tables=[Table("rates", "variants against their baselines", _columns(), records)],
        drawings=[
            Drawing(
                name="tradeoff",
                title="Time and peak memory, as shares of the baseline",
                kind="scatter",
                message=f"{message}; left and below is better.",
                x=Axis(title="time / baseline's (less is better)", log=True),
                y=Axis(title="peak memory / baseline's (less is better)", log=True),
                series=[Series(name=kind, points=points[kind]) for kind in TOLD if kind in points],
            )
        ],
        options=asdict(options),
        assumptions=[
            "peak memory differs where the difference is at least 1 MiB and above the floor of the target.",
            "the rate holds between these two rows; other points on the way were not measured.",
        ],
        left_out=[*newest.left_out, *left_out],
        sources=newest.sources,
    )


def change_of(speedup: Estimate) -> Estimate:
    """The change of the time in percent: negative where the row is faster."""
    low, high = sorted((100 * (1 / speedup.high - 1), 100 * (1 / max(speedup.low, 1e-9) - 1)))
    return Estimate(100 * (1 / speedup.value - 1), low, high)


def kind_of(speedup: Estimate, floor: float, saved: float) -> str:
    """Whether a row is a gain, a loss or a trade. `saved` is the memory that it saves in bytes; 0 if it is alike."""
    faster, slower = speedup.low > 1 + floor, speedup.high < 1 - floor
    same = speedup.low >= 1 - floor and speedup.high <= 1 + floor
    if (faster and saved >= 0) or (same and saved > 0):
        return GAIN
    if (slower and saved <= 0) or (same and saved < 0):
        return LOSS
    return TRADE if faster or slower else OPEN


def _missing(entry: Entry) -> str:
    base = entry.baseline
    if entry.row.speedup is None:
        return "it has no speedup"
    if _most(entry.row) is None or base is None or _most(base) is None:
        return "no peak of its memory, or of the baseline's, was measured"
    return ""


def _most(row: Row) -> int | None:
    return row.memory.most_bytes if row.memory else None


def _saved(entry: Entry) -> int:
    base = entry.baseline
    return ((_most(base) if base else None) or 0) - (_most(entry.row) or 0)


def _matters(entry: Entry, saved: int) -> bool:
    """Whether a difference of memory is large enough to count."""
    base = entry.baseline
    most = (_most(base) if base else None) or 0
    return abs(saved) >= LEAST_BYTES and abs(saved) > entry.result.floor * most


def _record(entry: Entry) -> tuple[Record, str]:
    row, saved = entry.row, _saved(entry)
    assert row.speedup is not None
    change = change_of(row.speedup)
    kind = kind_of(row.speedup, entry.result.floor, saved if _matters(entry, saved) else 0)
    if kind == GAIN and row.quality is not None:
        kind = LOSSY
    cells: dict[str, Cell] = {
        "row": entry.name,
        "class": entry.hardware,
        "kind": kind,
        "time": Figure(value=change.value, low=change.low, high=change.high, unit="%"),
        "memory": counted(-saved, "B"),
        "rate": _rate(change, saved, kind),
        "quality": _quality(row, change),
    }
    return Record(cells, [entry.origin]), kind


def _rate(change: Estimate, saved: int, kind: str) -> Figure:
    """Bytes for each 1 % of time: saved for a loss of time, spent for a gain."""
    if kind != TRADE:
        return Figure(value=None, unit="B", certainty="derived", reason=f"{kind}: {TOLD[kind]}")
    low, high = sorted((abs(saved / change.low), abs(saved / change.high)))
    return Figure(value=abs(saved / change.value), low=low, high=high, unit="B", certainty="derived")


def _quality(row: Row, change: Estimate) -> Figure:
    if row.quality is None:
        return Figure(value=None, unit="number", certainty="derived", reason="it declares no loss of quality")
    if row.quality.value is None or change.high >= 0:
        why = "its quality came out as no number" if row.quality.value is None else "no gain of time is proven"
        return Figure(value=None, unit="number", certainty="derived", reason=why)
    ends = sorted(row.quality.value / -end for end in (change.low, change.high))
    return Figure(
        value=row.quality.value / -change.value, low=ends[0], high=ends[1], unit="number", certainty="derived"
    )


def _point(entry: Entry, kind: str) -> Point:
    speedup, base = entry.row.speedup, entry.baseline
    assert speedup is not None
    share = Estimate(1 / speedup.value, 1 / speedup.high, 1 / max(speedup.low, 1e-9))
    most = (_most(base) if base else None) or 0
    memory = (_most(entry.row) or 0) / most if most else None
    return Point(
        label=entry.name,
        x=figure(share),
        y=counted(memory or None, reason="the baseline, or the row, has no memory of its own"),
        mark="undecided" if kind == OPEN else "",
        origin=entry.origin,
    )


def _columns() -> list[Column]:
    return [
        Column("row", "row"),
        Column("class", "kind of machine"),
        Column("kind", "kind", "verdict"),
        Column("time", "change of time", "figure"),
        Column("memory", "change of memory", "figure"),
        Column("rate", "bytes for 1 % of time", "figure"),
        Column("quality", "loss of quality for 1 % of time", "figure"),
    ]
