"""The tables of the analysis of traces."""

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from aiperf_core.report.result import Cell, Column, Figure, Origin, Record, Table, counted
from aiperf_traces import breakdown, draws, memory, paths
from aiperf_traces.breakdown import Breakdown, Device, Launches
from aiperf_traces.critical import WORDS as CAUSES
from aiperf_traces.critical import Cause, CriticalPath
from aiperf_traces.model import NONE, Trace
from aiperf_traces.ranks import Arrivals, Clocks, Collectives, Straggler
from aiperf_traces.totals import Piece, Totals
from aiperf_traces.windows import Window

NS = 1e-9
MOST_WINDOWS = 40  # rows of the table of windows
# Above this share of work that begins before its launch, the clocks of host and device disagree.
MOST_EARLY = 0.05
DISAGREE = "the clocks of host and device disagree: much work begins before its launch"
SEQUENCE = 3  # kernels


@frozen(eq=False)
class Part:
    """A device with its trace, the windows of its rank, its breakdown over them, and the figures of its launches."""

    trace: Trace
    device: Device
    windows: list[Window]
    launches: Launches
    name: str
    total: Breakdown

    @property
    def origins(self) -> list[Origin]:
        """The source of its figures."""
        return [Origin(self.trace.path)]

    @property
    def clocks_agree(self) -> bool:
        """True where the reasons of idle times can be believed."""
        return self.launches.early <= MOST_EARLY * max(self.launches.matched, 1)


def _seconds(time: int) -> Figure:
    return counted(time * NS, "s")


_BREAKDOWN = [
    Column("window", "window", "figure"),
    Column("compute", "compute", "figure"),
    Column("communication", "exposed communication", "figure"),
    Column("copies", "exposed copies", "figure"),
    Column("idle", "idle", "figure"),
    Column("host_bound", "idle: host-bound", "figure"),
    Column("waiting", "idle: waiting", "figure"),
    Column("unknown", "idle: unknown", "figure"),
    Column("overlap", "overlapped communication", "figure"),
]


def breakdown_table(parts: Sequence[Part]) -> Table:
    """The breakdown of each device over all windows."""
    records = [Record({"device": one.name, **_breakdown(one.total, one)}, one.origins) for one in parts]
    note = (
        "Compute, exposed communication, exposed copies and idle add up to the window. The next launch decides the "
        "reason of idle time: after the end of the work before it, host-bound; before that end, waiting."
    )
    return Table("breakdown", "time of each device", [Column("device", "device"), *_BREAKDOWN], records, note)


def windows_table(parts: Sequence[Part]) -> Table:
    """The breakdown of each window, for the first windows of each device."""
    records = []
    longest, shown = 0, max(1, MOST_WINDOWS // len(parts))
    for one in parts:
        longest = max(longest, len(one.windows))
        for window in one.windows[:shown]:
            cells: dict[str, Cell] = {"name": window.name, "device": one.name}
            records.append(Record({**cells, **_breakdown(breakdown.breakdown(one.device, window), one)}, one.origins))
    note = f"The first {shown} of {longest}." if longest > shown else ""
    columns = [Column("name", "window"), Column("device", "device"), *_BREAKDOWN]
    columns[2] = Column("window", "length", "figure")
    return Table("windows", "time of each window", columns, records, note)


def _breakdown(times: Breakdown, part: Part) -> dict[str, Cell]:
    cells: dict[str, Cell] = {
        name: _seconds(getattr(times, name)) for name in ("window", "compute", "communication", "copies", "idle")
    }
    for name in ("host_bound", "waiting", "unknown"):
        cells[name] = _seconds(getattr(times, name)) if part.clocks_agree else counted(None, "s", DISAGREE)
    share = 100 * times.overlapped / times.communicating if times.communicating else None
    cells["overlap"] = counted(share, "%", "no communication in the windows")
    return cells


def work_table(totals: Totals, most: int, origins: list[Origin], whose: str = "") -> Table:
    """The pieces that take the most time. `whose`: the rank, where there are several."""
    pieces = sorted(totals.pieces.values(), key=lambda piece: (-piece.alone, piece.name, piece.path))
    records = [Record(_work(piece, totals), origins) for piece in pieces[:most]]
    rest = sum(piece.alone for piece in pieces[most:])
    if rest:
        records.append(Record(_line(f"({len(pieces) - most:,} more)", rest, totals), origins))
    records.append(Record(_line(f"({totals.rest_name})", totals.rest, totals), origins))
    what = f"work of devices{whose}" if totals.on_device else "operators of the thread with most of them"
    note = "Time counts once: for compute before communication before copies, and among alike for what began first."
    columns = [
        Column("name", "work" if totals.on_device else "operator"),
        Column("kind", "kind"),
        Column("path", "operators around it"),
        Column("calls", "calls a window", "figure"),
        Column("time", "time a window", "figure"),
        Column("share", "share", "figure"),
        Column("call", "mean call", "figure"),
    ]
    return Table("work", what, columns, records, note if totals.on_device else "Time without the operators within it.")


def _line(name: str, time: int, totals: Totals) -> dict[str, Cell]:
    return {
        "name": name,
        "kind": None,
        "path": None,
        "calls": None,
        "time": counted(time * NS / max(totals.windows, 1), "s"),
        "share": counted(100 * time / totals.window if totals.window else None, "%"),
        "call": None,
    }


def _work(piece: Piece, totals: Totals) -> dict[str, Cell]:
    return {
        **_line(piece.name, piece.alone, totals),
        "kind": piece.kind,
        "path": paths.shown(piece.path) or None,
        "calls": counted(len(piece.lengths) / max(totals.windows, 1), "count"),
        "call": draws.mean(piece.lengths, NS, "s", "no call begins within a window"),
    }


def launches_table(parts: Sequence[Part]) -> Table:
    """Launches, queues and small copies of each device."""
    records = []
    for one in parts:
        launches = one.launches
        why = "the trace has no launch of this work"
        matched = launches.matched or None
        records.append(
            Record(
                {
                    "device": one.name,
                    "work": counted(launches.work, "count"),
                    "matched": counted(100 * launches.matched / launches.work if launches.work else None, "%"),
                    "delay": draws.mean(launches.delays, NS, "s", why)
                    if one.clocks_agree
                    else counted(None, "s", DISAGREE),
                    "short": counted(launches.short if matched else None, "count", why),
                    "queue": counted(launches.queue_mean if matched else None, "count", why),
                    "queue_most": counted(launches.queue_most if matched else None, "count", why),
                    "copies": counted(launches.copies, "count"),
                    "small": counted(launches.small_copies, "count"),
                    "small_bytes": counted(launches.small_bytes, "B"),
                    "small_time": _seconds(launches.small_time),
                },
                one.origins,
            )
        )
    columns = [
        Column("device", "device"),
        Column("work", "pieces of work", "figure"),
        Column("matched", "with a launch", "figure"),
        Column("delay", "mean delay", "figure"),
        Column("short", "shorter than launch", "figure"),
        Column("queue", "mean queue", "figure"),
        Column("queue_most", "longest queue", "figure"),
        Column("copies", "copies", "figure"),
        Column("small", "small copies", "figure"),
        Column("small_bytes", "their bytes", "figure"),
        Column("small_time", "their time", "figure"),
    ]
    note = "The delay is from the end of the launch to the begin of the work. The queue is what was launched and waits."
    return Table("launches", "launches and copies", columns, records, note)


def sequences_table(part: Part, most: int) -> Table:
    """Sequences of kernels of a device that come again and again: candidates for fusion or a graph."""
    records = []
    for succession in breakdown.sequences(part.trace, part.device, part.windows, SEQUENCE, most):
        names = " > ".join(paths.normalised(part.trace.names[number])[:60] for number in succession.names)
        cells: dict[str, Cell] = {
            "names": names,
            "count": counted(succession.count, "count"),
            "time": _seconds(succession.time),
        }
        records.append(Record(cells, part.origins))
    columns = [
        Column("names", f"{SEQUENCE} kernels in succession"),
        Column("count", "times", "figure"),
        Column("time", "time", "figure"),
    ]
    return Table(
        "sequences", f"frequent sequences of {part.name}", columns, records, "A kernel may be in several sequences."
    )


def ranks_table(
    names: Sequence[str],
    collectives: Collectives,
    clocks: Clocks,
    arrivals: Arrivals,
    steps: Straggler,
    origins: list[list[Origin]],
) -> Table:
    """The members of collectives: their clock, and how often they are last."""
    records = []
    decided = int((arrivals.last != NONE).sum())
    for place, name in enumerate(names):
        own = arrivals.last == place
        aligned = bool(clocks.known[place])
        why = "its clock could not be aligned"
        in_steps = int((steps.lasts == place).sum())
        records.append(
            Record(
                {
                    "rank": name,
                    "collectives": counted(int(collectives.took_part[:, place].sum()), "count"),
                    "offset": counted(int(clocks.offset[place]) * NS if aligned else None, "s", why),
                    "last": counted(int(own.sum()) if aligned else None, "count", why),
                    "lead": draws.mean(arrivals.lead[own], NS, "s", "it is never last"),
                    "steps": draws.share(in_steps, len(steps.lasts)),
                },
                origins[place],
            )
        )
    columns = [
        Column("rank", "rank"),
        Column("collectives", "collectives", "figure"),
        Column("offset", "clock ahead by", "figure"),
        Column("last", "times last", "figure"),
        Column("lead", "mean behind the one before", "figure"),
        Column("steps", "share of windows it holds up", "figure"),
    ]
    note = (
        f"{len(collectives.rows):,} collectives, matched by {_BY[collectives.by]}. The last arrival is clear in "
        f"{decided:,} of them: later than the one before by more than twice the residual skew of "
        f"{clocks.skew * NS * 1e6:.3g} us."
    )
    return Table("ranks", "arrival at collectives", columns, records, note)


_BY = {"sequence": "group and sequence number", "order": "their order, as the trace has no sequence numbers"}


def collectives_table(collectives: Collectives, arrivals: Arrivals, origins: list[Origin]) -> Table:
    """The arrival spread of collectives by name."""
    records = []
    labels = np.array([paths.normalised(name) for name in collectives.names])
    for name in sorted(set(labels.tolist())):
        own = labels == name
        part = collectives.took_part[own]
        shortest = np.where(part, collectives.end[own] - collectives.start[own], np.iinfo(np.int64).max).min(axis=1)
        records.append(
            Record(
                {
                    "name": name,
                    "count": counted(int(own.sum()), "count"),
                    "spread": draws.mean(arrivals.spread[own], NS, "s"),
                    "worst": _seconds(int(arrivals.spread[own].max())),
                    "shortest": draws.mean(shortest, NS, "s"),
                },
                origins,
            )
        )
    columns = [
        Column("name", "collective"),
        Column("count", "count", "figure"),
        Column("spread", "mean arrival spread", "figure"),
        Column("worst", "greatest", "figure"),
        Column("shortest", "mean on the last rank", "figure"),
    ]
    return Table("collectives", "arrival spread", columns, records, "On the last rank a collective does not wait.")


def critical_tables(path: CriticalPath, names: Sequence[tuple[Trace, int]], most: int) -> list[Table]:
    """The critical path by cause, and the pieces of work on it."""
    records = []
    for cause, time in sorted(path.causes.items(), key=lambda pair: -pair[1]):
        cells: dict[str, Cell] = {
            "cause": CAUSES[cause],
            "time": _seconds(time),
            "share": counted(100 * time / path.window if path.window else None, "%"),
            "without": Figure(value=path.without[cause] * NS, unit="s", certainty="derived"),
        }
        records.append(Record(cells))
    columns = [
        Column("cause", "cause"),
        Column("time", "time on the path", "figure"),
        Column("share", "share of the window", "figure"),
        Column("without", "window at least, if free", "figure"),
    ]
    note = (
        f"The path has {100 * path.length / path.window if path.window else 0:.3g} % of the window. The rest was "
        f"waited for something that the trace does not show."
    )
    by_name: dict[str, list[int]] = {}
    slack: dict[str, list[int]] = {}
    traces = {rank: trace for trace, rank in names}
    for step in path.steps:
        if step.row != NONE and step.cause is not Cause.LAUNCH:
            trace = traces[step.rank]
            by_name.setdefault(paths.normalised(trace.names[trace.slices.name[step.row]]), []).append(step.time)
    for (rank, row), spare in path.slack.items():
        trace = traces[rank]
        slack.setdefault(paths.normalised(trace.names[trace.slices.name[row]]), []).append(spare)
    pieces = [
        Record(
            {
                "name": name,
                "count": counted(len(times), "count"),
                "time": _seconds(sum(times)),
                "least": _seconds(min(slack[name])) if name in slack else counted(None, "s"),
                "median": _seconds(int(np.median(slack[name]))) if name in slack else counted(None, "s"),
            }
        )
        for name, times in sorted(by_name.items(), key=lambda pair: -sum(pair[1]))[:most]
    ]
    work = [
        Column("name", "work on the path"),
        Column("count", "calls on it", "figure"),
        Column("time", "time on it", "figure"),
        Column("least", "least slack", "figure"),
        Column("median", "median slack", "figure"),
    ]
    tables = [Table("path", "critical path", columns, records, note)]
    return [*tables, Table("path_work", "work on the critical path", work, pieces)] if pieces else tables


def memory_tables(usages: Sequence[memory.Usage], most: int, origins: list[Origin]) -> list[Table]:
    """The peak of each device, and what was alive then by operator."""
    records, alive = [], []
    for one in usages:
        name = "host" if one.device == NONE else f"GPU {one.device}"
        spare = None if one.reserved is None else 100 * (1 - one.peak / one.reserved)
        records.append(
            Record(
                {
                    "device": name,
                    "peak": counted(one.peak, "B"),
                    "reserved": counted(one.reserved, "B", "the trace has no figure of the allocator"),
                    "spare": counted(spare, "%", "the trace has no figure of the allocator"),
                    "before": counted(one.before, "B", "the trace has no totals, so that levels begin at 0"),
                    "growth": draws.mean(one.growth, 1.0, "B", "it takes two windows"),
                },
                origins,
            )
        )
        for path, size in sorted(one.alive.items(), key=lambda pair: -pair[1])[:most]:
            shown = paths.shown(path) if path else "(outside of operators)"
            alive.append(Record({"operator": shown, "device": name, "bytes": counted(size, "B")}, origins))
    peaks = [
        Column("device", "device"),
        Column("peak", "peak", "figure"),
        Column("reserved", "reserved then", "figure"),
        Column("spare", "reserved and not in use", "figure"),
        Column("before", "from before the recording", "figure"),
        Column("growth", "growth a window", "figure"),
    ]
    live = [
        Column("operator", "allocated by"),
        Column("device", "device"),
        Column("bytes", "alive at the peak", "figure"),
    ]
    return [Table("memory", "memory", peaks, records), Table("alive", "alive at the peak", live, alive)]
