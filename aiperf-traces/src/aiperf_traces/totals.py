"""The pieces of a trace: work of one name under one path of operators, with its time in the windows."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

from aiperf_traces.breakdown import Device, exclusive
from aiperf_traces.model import NONE, WORDS, Ints, Kind, Trace
from aiperf_traces.paths import Path, Paths, normalised
from aiperf_traces.windows import Window

Key = tuple[str, str, Path]  # kind, name, path


@frozen(eq=False)
class Piece:
    """Work of one name and path.

    lengths: nanoseconds of each call that begins within the windows, in the order of time.
    alone: nanoseconds of the windows that count for this piece.
    """

    kind: str
    name: str
    path: Path
    lengths: Ints
    alone: int


@frozen(eq=False)
class Totals:
    """The pieces of windows. The `alone` of all pieces and `rest` add up to `window`; nanoseconds.

    rest_name: what the rest is.
    on_device: whether pieces are work of devices; else operators of the thread with most of them.
    """

    pieces: dict[Key, Piece]
    windows: int
    window: int
    rest: int
    rest_name: str
    on_device: bool
    notes: list[str] = field(factory=list)


def of_devices(trace: Trace, devices: Sequence[Device], windows: Sequence[Window]) -> Totals:
    """The work of devices, by name and path. A window counts once for each device of its rank."""
    slices, paths = trace.slices, Paths(trace)
    alone: dict[Key, int] = defaultdict(int)
    lengths: dict[Key, list[int]] = defaultdict(list)
    keys: dict[tuple[int, int, Path], Key] = {}
    whole = used = 0
    for device in devices:
        for window in windows:
            if window.rank != device.rank:
                continue
            whole += window.length
            rows, times = exclusive(trace, device, window)
            used += int(times.sum())
            for time, name, kind, parent, start, end in zip(
                times.tolist(), slices.name[rows].tolist(), slices.kind[rows].tolist(),
                slices.parent[rows].tolist(), slices.start[rows].tolist(), slices.end[rows].tolist(), strict=True,
            ):  # fmt: skip
                path = paths.of(parent)
                key = keys.get((name, kind, path))
                if key is None:
                    key = keys[name, kind, path] = WORDS[Kind(kind)], normalised(trace.names[name]), path
                alone[key] += time
                if start >= window.start:
                    lengths[key].append(end - start)
    count = sum(1 for device in devices for window in windows if window.rank == device.rank)
    return Totals(_pieces(alone, lengths), count, whole, whole - used, "idle", True)


def of_host(trace: Trace, windows: Sequence[Window]) -> Totals:
    """The operators of the thread that spends most time in them, each without the operators within it."""
    slices, paths = trace.slices, Paths(trace)
    kinds = (slices.kind == Kind.OPERATOR) | (slices.kind == Kind.RANGE)
    rows = np.flatnonzero(kinds & (slices.thread != NONE))
    outer = rows[slices.parent[rows] == NONE]
    alone: dict[Key, int] = defaultdict(int)
    lengths: dict[Key, list[int]] = defaultdict(list)
    if len(outer):
        spent = np.bincount(slices.thread[outer], weights=slices.end[outer] - slices.start[outer])
        rows = rows[slices.thread[rows] == int(spent.argmax())]
    whole = used = 0
    starts = slices.start[rows]
    own = np.zeros(len(slices), dtype=np.int64)
    for window in windows:
        whole += window.length
        first, last = np.searchsorted(starts, [window.start, window.end])
        keep = rows[first:last]
        keep = keep[(slices.end[keep] <= window.end) & (slices.rank[keep] == window.rank)]
        time = slices.end[keep] - slices.start[keep]
        own[keep] = time
        within = slices.parent[keep] != NONE
        np.subtract.at(own, slices.parent[keep][within], time[within])
        for row, length in zip(keep.tolist(), time.tolist(), strict=True):
            path = paths.of(row)
            key = WORDS[Kind(int(slices.kind[row]))], path[-1], path[:-1]
            alone[key] += int(own[row])
            used += int(own[row])
            lengths[key].append(length)
    return Totals(_pieces(alone, lengths), len(windows), whole, whole - used, "outside of operators", False)


def _pieces(alone: dict[Key, int], lengths: dict[Key, list[int]]) -> dict[Key, Piece]:
    return {key: Piece(*key, np.array(lengths.get(key, []), dtype=np.int64), time) for key, time in alone.items()}
