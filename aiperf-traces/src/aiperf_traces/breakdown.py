"""The work of a device in a window: compute, exposed communication, exposed copies, and idle time with its reason.

Definitions are those of Holistic Trace Analysis (https://hta.readthedocs.io), with copies beside communication:
compute = |compute|, exposed communication = |communication minus compute|, exposed copies = |copies minus both|,
idle = window minus all of them, where |.| is the length of a union of intervals. The four add up to the window.
"""

from collections.abc import Sequence

import numpy as np
from attrs import fields, frozen

from aiperf_core.profiling.timeline import union_of
from aiperf_traces.building import launches
from aiperf_traces.model import NONE, Bools, Ints, Kind, Trace, covered, length_within
from aiperf_traces.windows import Window, places


@frozen(kw_only=True)
class Breakdown:
    """The time of a device in windows; nanoseconds.

    compute + communication + copies + idle = window.
    host_bound + waiting + unknown = idle.
    overlapped: communication while the device computes. communicating: all communication.
    """

    window: int = 0
    compute: int = 0
    communication: int = 0
    copies: int = 0
    idle: int = 0
    host_bound: int = 0
    waiting: int = 0
    unknown: int = 0
    overlapped: int = 0
    communicating: int = 0

    def __add__(self, other: "Breakdown") -> "Breakdown":
        return Breakdown(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Breakdown)})


@frozen(eq=False)
class Device:
    """The work of a device of a rank: indices of slices in the order of start, their unions, and the idle gaps.

    launch: of each slice in `rows` the index of its launch, or NONE.
    gaps: starts and ends of the gaps between work; the first begins, and the last ends, beyond all times.
    reasons: of each gap 0 host-bound, 1 waiting, 2 unknown.
    starts, reach: of each slice in `rows` its start, and the latest end up to it.
    """

    rank: int
    device: int
    rows: Ints
    launch: Ints
    compute: tuple[Ints, Ints]
    communication: tuple[Ints, Ints]
    with_communication: tuple[Ints, Ints]
    busy: tuple[Ints, Ints]
    gaps: tuple[Ints, Ints]
    reasons: Ints
    starts: Ints
    reach: Ints


HOST_BOUND, WAITING, UNKNOWN = range(3)
# The kinds that time counts for, the most important first: the first and the last kind of each.
_ORDER = ((0, 0), (1, 1), (2, 3))
_FAR = 1 << 62


def devices_of(trace: Trace) -> list[Device]:
    """The devices that did work in a trace."""
    slices = trace.slices
    work = np.flatnonzero(slices.on_device)
    launch = launches_of(trace)
    pairs = np.unique(np.stack([slices.rank[work], slices.device[work]]), axis=1).T
    devices = []
    for rank, device in pairs.tolist():
        rows = work[(slices.rank[work] == rank) & (slices.device[work] == device)]
        devices.append(_device(trace, int(rank), int(device), rows, launch[rows]))
    return devices


def launches_of(trace: Trace) -> Ints:
    """The index of the launch of each slice of a device; NONE for the host and where there is none."""
    slices = trace.slices
    return launches({"kind": slices.kind, "correlation": slices.correlation})


def _device(trace: Trace, rank: int, device: int, rows: Ints, launch: Ints) -> Device:
    slices = trace.slices
    starts, ends, kinds = slices.start[rows], slices.end[rows], slices.kind[rows]

    def union(mask: Bools) -> tuple[Ints, Ints]:
        return union_of(starts[mask], ends[mask])

    busy = union_of(starts, ends)
    gaps = np.concatenate([[-_FAR], busy[1]]), np.concatenate([busy[0], [_FAR]])
    # The slice after each gap is the first that starts where the gap ends.
    follower = np.minimum(np.searchsorted(starts, busy[0]), len(rows) - 1)
    call = launch[follower]
    launched = np.where(call >= 0, slices.start[np.maximum(call, 0)], _FAR)
    reasons = np.where(call < 0, UNKNOWN, np.where(launched >= gaps[0][:-1], HOST_BOUND, WAITING))
    return Device(
        rank=rank,
        device=device,
        rows=rows,
        launch=launch,
        compute=union(kinds == Kind.COMPUTE),
        communication=union(kinds == Kind.COMMUNICATION),
        with_communication=union(kinds <= Kind.COMMUNICATION),
        busy=busy,
        gaps=gaps,
        reasons=np.concatenate([reasons, [UNKNOWN]]).astype(np.int64),
        starts=starts,
        reach=np.maximum.accumulate(ends),
    )


def breakdown(device: Device, window: Window) -> Breakdown:
    """The breakdown of a device in a window of its rank."""
    begin, finish = window.start, window.end
    compute = length_within(device.compute, begin, finish)
    communicating = length_within(device.communication, begin, finish)
    both = length_within(device.with_communication, begin, finish)
    busy = length_within(device.busy, begin, finish)
    first = int(np.searchsorted(device.gaps[1], begin, side="right"))
    last = int(np.searchsorted(device.gaps[0], finish, side="left"))
    lengths = np.minimum(device.gaps[1][first:last], finish) - np.maximum(device.gaps[0][first:last], begin)
    split = [int(lengths[device.reasons[first:last] == reason].sum()) for reason in (HOST_BOUND, WAITING, UNKNOWN)]
    return Breakdown(
        window=window.length,
        compute=compute,
        communication=both - compute,
        copies=busy - both,
        idle=window.length - busy,
        host_bound=split[HOST_BOUND],
        waiting=split[WAITING],
        unknown=split[UNKNOWN],
        overlapped=communicating - (both - compute),
        communicating=communicating,
    )


def total(device: Device, windows: Sequence[Window]) -> Breakdown:
    """The sum over the windows of the rank of a device."""
    return sum((breakdown(device, one) for one in windows if one.rank == device.rank), Breakdown())


def inside(trace: Trace, rows: Ints, windows: Sequence[Window], rank: int) -> Bools:
    """A mask of the slices `rows` of a rank that begin within its windows."""
    own = [window for window in windows if window.rank == rank]
    return np.asarray(places(own, trace.slices.start[rows]) != NONE)


@frozen(kw_only=True)
class Launches:
    """Launches of a device's work in windows; times in nanoseconds.

    work: slices. matched: slices with a launch.
    delays: from the end of the launch to the start of the work; 0 where the work begins earlier.
    short: kernels that are shorter than their launch.
    early: slices that begin before their launch, as where the clocks of host and device disagree.
    queue_mean, queue_most: slices that are launched and have not begun, over time.
    small_copies, small_bytes, small_time: copies below a size. copies: all copies.
    """

    work: int
    matched: int
    delays: Ints
    short: int
    early: int
    queue_mean: float
    queue_most: int
    copies: int
    small_copies: int
    small_bytes: int
    small_time: int


def launch_figures(trace: Trace, device: Device, windows: Sequence[Window], small: int) -> Launches:
    """Figures of the launches of the work that begins within the windows. `small`: bytes of a small copy, at most."""
    slices = trace.slices
    keep = inside(trace, device.rows, windows, device.rank)
    rows, launch = device.rows[keep], device.launch[keep]
    matched = launch >= 0
    work, calls = rows[matched], launch[matched]
    delays = np.maximum(slices.start[work] - slices.end[calls], 0)
    kernels = slices.kind[work] <= Kind.COMMUNICATION
    lengths, costs = slices.end[work] - slices.start[work], slices.end[calls] - slices.start[calls]
    mean, most = _queue(slices.start[calls], slices.start[work])
    copies = rows[slices.kind[rows] == Kind.COPY]
    little = copies[slices.bytes[copies] <= small]
    return Launches(
        work=len(rows),
        matched=len(work),
        delays=delays,
        short=int(np.count_nonzero(kernels & (lengths < costs))),
        early=int(np.count_nonzero(slices.start[work] < slices.start[calls])),
        queue_mean=mean,
        queue_most=most,
        copies=len(copies),
        small_copies=len(little),
        small_bytes=int(slices.bytes[little].sum()),
        small_time=int((slices.end[little] - slices.start[little]).sum()),
    )


def _queue(launched: Ints, begun: Ints) -> tuple[float, int]:
    """The mean over time, and the greatest, number of slices that are launched and have not begun."""
    waits = begun > launched
    launched, begun = launched[waits], begun[waits]
    if not len(launched):
        return 0.0, 0
    times = np.concatenate([launched, begun])
    change = np.concatenate([np.ones(len(launched), np.int64), -np.ones(len(begun), np.int64)])
    order = np.lexsort((change, times))  # at one time, what begins leaves before what is launched enters
    depth = np.cumsum(change[order])
    span = int(times.max() - times.min())
    return float((begun - launched).sum() / span) if span else 0.0, int(depth.max())


@frozen
class Succession:
    """A sequence of kernels on a stream: the numbers of their names, how often it comes, and its nanoseconds."""

    names: tuple[int, ...]
    count: int
    time: int


def sequences(trace: Trace, device: Device, windows: Sequence[Window], length: int, most: int) -> list[Succession]:
    """The repeated sequences of `length` kernels in succession on a stream, those that take the most time first."""
    slices = trace.slices
    rows = device.rows[inside(trace, device.rows, windows, device.rank)]
    rows = rows[slices.kind[rows] <= Kind.COMMUNICATION]
    rows = rows[np.lexsort((slices.start[rows], slices.stream[rows]))]
    if len(rows) < length:
        return []
    count = len(rows) - length + 1
    name, stream = slices.name[rows].astype(np.int64), slices.stream[rows]
    time = slices.end[rows] - slices.start[rows]
    whole = np.ones(count, dtype=bool)
    code, sums = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for step in range(length):
        part = slice(step, step + count)
        whole &= stream[part] == stream[:count]
        # Renumbered at each step, so that the code stays small and exact.
        code = np.unique(code * (int(name.max()) + 1) + name[part], return_inverse=True)[1]
        sums += time[part]
    places = np.flatnonzero(whole)
    if not len(places):
        return []
    codes, first, counts = np.unique(code[places], return_index=True, return_counts=True)
    spent = np.bincount(np.searchsorted(codes, code[places]), weights=sums[places]).astype(np.int64)
    successions: list[Succession] = []
    for index in np.argsort(-spent, kind="stable"):
        if counts[index] > 1 and len(successions) < most:
            at = places[first[index]]
            successions.append(
                Succession(tuple(name[at : at + length].tolist()), int(counts[index]), int(spent[index]))
            )
    return successions


def exclusive(trace: Trace, device: Device, window: Window) -> tuple[Ints, Ints]:
    """The slices of a device in a window, and the nanoseconds that count for each of them alone.

    Where several slices run, the time counts for compute before communication before copies, and among alike for the
    slice that began first. With the idle time the parts add up to the window.
    """
    slices = trace.slices
    # Slices are sorted by start, and the reach is that of the longest before them.
    first = int(np.searchsorted(device.reach, window.start, side="right"))
    rows = device.rows[first : int(np.searchsorted(device.starts, window.end, side="left"))]
    rows = rows[slices.end[rows] > window.start]
    starts = np.maximum(slices.start[rows], window.start)
    ends = np.minimum(slices.end[rows], window.end)
    result = np.zeros(len(rows), dtype=np.int64)
    above: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))
    of_each = slices.kind[rows]
    for kinds in _ORDER:
        own = np.flatnonzero((of_each >= kinds[0]) & (of_each <= kinds[1]))
        if not len(own):
            continue
        begin, finish = starts[own], ends[own]
        reached = np.concatenate([[-_FAR], np.maximum.accumulate(finish)[:-1]])
        begin = np.minimum(np.maximum(begin, reached), finish)
        result[own] = (finish - begin) - (covered(above, finish) - covered(above, begin))
        above = union_of(np.concatenate([above[0], starts[own]]), np.concatenate([above[1], ends[own]]))
    return rows, result
