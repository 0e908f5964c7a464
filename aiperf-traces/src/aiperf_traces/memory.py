"""Memory in a trace: the peak, what was alive then by operator, and the growth from step to step."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from aiperf_traces.model import NONE, Ints, Kind, Trace
from aiperf_traces.paths import Path, Paths
from aiperf_traces.windows import Window


@frozen(eq=False)
class Usage:
    """The memory of a device; bytes. Device NONE is the host.

    times, levels: the bytes allocated after each event.
    peak, at: the greatest level and its time. reserved: by the allocator at that time, or None.
    alive: bytes at the peak by the path of the operator that allocated them; the empty path stands for allocations
        outside of operators.
    before: bytes at the peak that were allocated before the recording, or None where the trace has no totals.
    growth: of the windows after the first, the level at their end minus that at the end of the window before.
    """

    device: int
    times: Ints
    levels: Ints
    peak: int
    at: int
    reserved: int | None
    alive: dict[Path, int]
    before: int | None
    growth: Ints


def usage(trace: Trace, windows: Sequence[Window]) -> list[Usage]:
    """The usage of each device that has events of memory."""
    memory = trace.memory
    usages = []
    for device in np.unique(memory.device).tolist():
        own = np.flatnonzero(memory.device == device)
        totals = memory.total[own]
        has_totals = bool((totals != NONE).all())
        levels = totals if has_totals else np.cumsum(memory.bytes[own])
        place = int(levels.argmax())
        alive = _alive(trace, own[: place + 1])
        reserved = int(memory.reserved[own[place]])
        ends = np.array([window.end for window in windows], dtype=np.int64)
        index = np.searchsorted(memory.time[own], ends, side="right") - 1
        at_end = levels[index[index >= 0]]
        usages.append(
            Usage(
                device=int(device),
                times=memory.time[own],
                levels=levels,
                peak=int(levels[place]),
                at=int(memory.time[own[place]]),
                reserved=reserved if reserved > 0 else None,
                alive=alive,
                before=int(levels[place]) - sum(alive.values()) if has_totals else None,
                growth=np.diff(at_end),
            )
        )
    return usages


def _alive(trace: Trace, rows: Ints) -> dict[Path, int]:
    """The bytes that are allocated after the events `rows`, by the path of the operator."""
    memory, paths = trace.memory, Paths(trace)
    live: dict[int, tuple[int, int]] = {}
    for row, size, address in zip(
        rows.tolist(), memory.bytes[rows].tolist(), memory.address[rows].tolist(), strict=True
    ):
        if size > 0:
            live[address] = size, row
        else:
            live.pop(address, None)
    kept = np.array([row for _, row in live.values()], dtype=np.int64)
    alive: dict[Path, int] = defaultdict(int)
    for (size, _), around in zip(live.values(), innermost(trace, memory.time[kept], memory.thread[kept]), strict=True):
        alive[paths.of(int(around))] += size
    return dict(alive)


def innermost(trace: Trace, times: Ints, threads: Ints) -> Ints:
    """The innermost operator or range that runs on a thread at a time, or NONE."""
    slices = trace.slices
    innermost_of = np.full(len(times), NONE, dtype=np.int64)
    kinds = (slices.kind == Kind.OPERATOR) | (slices.kind == Kind.RANGE)
    for thread in np.unique(threads).tolist():
        rows = np.flatnonzero(kinds & (slices.thread == thread))
        own = np.flatnonzero(threads == thread)
        if thread == NONE or not len(rows):
            continue
        place = np.searchsorted(slices.start[rows], times[own], side="right") - 1
        around = np.where(place >= 0, rows[np.maximum(place, 0)], NONE)
        while (over := (around != NONE) & (slices.end[np.maximum(around, 0)] <= times[own])).any():
            around = np.where(over, slices.parent[np.maximum(around, 0)], around)
        innermost_of[own] = around
    return innermost_of
