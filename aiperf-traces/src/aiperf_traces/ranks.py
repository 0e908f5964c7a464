"""Several ranks: collectives that belong together, the clocks of the ranks, and which rank arrives last."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_traces.breakdown import Device
from aiperf_traces.model import NONE, Ints, Kind, Trace

# Every rank leaves these when the last has come. A broadcast, a send or a receive may end earlier on a rank.
_COMMON_END = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE)
Member = tuple[int, int]  # rank, device


@frozen(eq=False)
class Collectives:
    """Collectives that several members took part in; a line for each collective, a column for each member.

    members: rank and device.
    rows: the slice of each member, an index of its trace's columns; NONE where it did not take part.
    start, end: on the clocks of the traces, nanoseconds; 0 where it did not take part.
    names: the name of each collective.
    by: how they were matched: `sequence` (group and sequence number) or `order`.
    unmatched: slices of communication that no other member has.
    """

    members: list[Member]
    rows: Ints
    start: Ints
    end: Ints
    names: list[str]
    by: str
    unmatched: int

    @property
    def took_part(self) -> NDArray[np.bool_]:
        """A mask of the members that took part."""
        return np.asarray(self.rows != NONE)


def match(devices: Sequence[tuple[Trace, Device]]) -> Collectives:
    """The collectives of several traces, in the order of their start on the first member.

    Matched by the process group and the sequence number, where all slices of communication have one; else by the order
    of the slices of one name.
    """
    members = [(device.rank, device.device) for _, device in devices]
    columns: dict[Member, Ints] = {}
    for trace, device in devices:
        rows = device.rows
        columns[device.rank, device.device] = rows[trace.slices.kind[rows] == Kind.COMMUNICATION]
    numbered = all(
        bool((trace.slices.sequence[columns[device.rank, device.device]] != NONE).all()) for trace, device in devices
    )
    rows_of: dict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
    for place, (trace, device) in enumerate(devices):
        rows = columns[device.rank, device.device]
        numbers: dict[tuple[object, ...], int] = defaultdict(int)
        slices, names = trace.slices, trace.names
        for row in rows.tolist():
            group = int(slices.group[row])
            text = names[group] if group != NONE else ""
            key: tuple[object, ...] = (text, int(slices.sequence[row])) if numbered else (text, names[slices.name[row]])
            # A number may come again, as of the parts of a coalesced collective.
            rows_of[*key, numbers[key]][place] = row
            numbers[key] += 1
    groups = [parts for parts in rows_of.values() if len(parts) > 1]
    table = np.full((len(groups), len(members)), NONE, dtype=np.int64)
    for line, parts in enumerate(groups):
        for place, row in parts.items():
            table[line, place] = row
    start, end = np.zeros_like(table), np.zeros_like(table)
    labels = [""] * len(groups)
    for place, (trace, _) in enumerate(devices):
        there = table[:, place] != NONE
        start[there, place] = trace.slices.start[table[there, place]]
        end[there, place] = trace.slices.end[table[there, place]]
        for line in np.flatnonzero(there).tolist():
            labels[line] = labels[line] or trace.names[trace.slices.name[table[line, place]]]
    order = np.argsort(np.where(table != NONE, start, np.iinfo(np.int64).max).min(axis=1), kind="stable")
    return Collectives(
        members=members,
        rows=table[order],
        start=start[order],
        end=end[order],
        names=[labels[line] for line in order.tolist()],
        by="sequence" if numbered else "order",
        unmatched=sum(len(parts) == 1 for parts in rows_of.values()),
    )


@frozen(eq=False)
class Clocks:
    """The time by which the clock of each member is ahead of the first member's, and what remains after alignment.

    offset: nanoseconds for each member; NONE of `known` where it shares no collective with a common end.
    skew: the 95th percentile of what remains of the common ends, nanoseconds. used: collectives.
    """

    offset: Ints
    known: NDArray[np.bool_]
    skew: int
    used: int


def align(collectives: Collectives) -> Clocks:
    """Align the clocks by the common ends of collectives that leave all members at once.

    The offset of a member is the median of its ends minus those of the members that are aligned already, beginning with
    the first member.
    """
    count = len(collectives.members)
    common = np.array([_COMMON_END.search(name) is not None for name in collectives.names], dtype=bool)
    took, ends = collectives.took_part[common], collectives.end[common]
    offset, known = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    if count:
        known[0] = True
    for _ in range(count):
        for member in np.flatnonzero(~known).tolist():
            shared = took[:, member] & (took & known).any(axis=1)
            if shared.any():
                reference = _mean_end(ends[shared] - offset, took[shared] & known)
                offset[member] = int(np.median(ends[shared, member] - reference))
                known[member] = True
    part = took & known
    several = part.sum(axis=1) > 1
    if not several.any():
        return Clocks(offset, known, 0, 0)
    aligned = ends[several] - offset
    off = np.abs(aligned - _mean_end(aligned, part[several])[:, None])[part[several]]
    return Clocks(offset, known, int(np.ceil(np.quantile(off, 0.95))), int(several.sum()))


def _mean_end(ends: Ints, part: NDArray[np.bool_]) -> Ints:
    """The mean of the marked entries of each line, in whole nanoseconds; relative to the first for exactness."""
    first = ends[np.arange(len(ends)), part.argmax(axis=1)]
    sums = np.where(part, ends - first[:, None], 0).sum(axis=1)
    return np.asarray(first + np.rint(sums / np.maximum(part.sum(axis=1), 1)).astype(np.int64), dtype=np.int64)


@frozen(eq=False)
class Arrivals:
    """The arrivals of the members at each collective, on the aligned clock.

    spread: nanoseconds from the first to the last member, for each collective.
    last: the place of the last member in `members`; NONE where the last two are closer than the skew.
    lead: nanoseconds by which it was behind the member before it.
    """

    spread: Ints
    last: Ints
    lead: Ints


def arrivals(collectives: Collectives, clocks: Clocks) -> Arrivals:
    """The arrivals at the collectives of members whose clocks are aligned."""
    part = collectives.took_part & clocks.known
    early = np.iinfo(np.int64).min
    times = np.where(part, collectives.start - clocks.offset, early)
    ordered = np.sort(times, axis=1)
    several = part.sum(axis=1) > 1
    first = np.where(part, times, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    spread = np.where(several, ordered[:, -1] - first, 0)
    lead = np.where(several, ordered[:, -1] - np.where(several, ordered[:, -2], 0), 0)
    # Two clocks may each be off by the skew.
    last = np.where(several & (lead > 2 * clocks.skew), times.argmax(axis=1), NONE)
    return Arrivals(spread.astype(np.int64), last.astype(np.int64), lead.astype(np.int64))


@frozen(eq=False)
class Straggler:
    """The members that are last in the steps.

    lasts: of each step the place of the member that held up the others longest; NONE where no member did.
    held: nanoseconds by which it held them up in each step.
    """

    lasts: Ints
    held: Ints

    def most(self) -> tuple[int, int]:
        """The member that is last in most steps, and in how many; NONE where no member ever is."""
        places = self.lasts[self.lasts != NONE]
        if not len(places):
            return NONE, 0
        counts = np.bincount(places)
        return int(counts.argmax()), int(counts.max())


def straggler(collectives: Collectives, arrivals_at: Arrivals, steps: Ints, count: int) -> Straggler:
    """The member that holds up the others, step by step.

    steps: the step of each collective, or NONE. count: the number of steps.
    """
    held = np.zeros((count, len(collectives.members)), dtype=np.int64)
    counts = (arrivals_at.last != NONE) & (steps != NONE)
    np.add.at(held, (steps[counts], arrivals_at.last[counts]), arrivals_at.lead[counts])
    best = held.argmax(axis=1) if count else np.zeros(0, np.int64)
    most = held.max(axis=1) if count else np.zeros(0, np.int64)
    return Straggler(np.where(most > 0, best, NONE).astype(np.int64), most.astype(np.int64))
