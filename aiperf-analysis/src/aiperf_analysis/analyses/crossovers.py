"""Crossovers: sizes at which another implementation becomes the faster."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from attrs import frozen

from aiperf_analysis.analyses.curves import Group, GroupKey
from aiperf_analysis.selection import Entry
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Column, Record, Table, counted
from aiperf_core.stats.compare import independent_ratio
from aiperf_core.stats.intervals import ratio_interval, verdict


@frozen(eq=False)
class Crossing:
    """Two implementations that change places.

    before, after: the last size at which `first` is faster, and the first at which `second` is.
    """

    first: Entry
    second: Entry
    target: str
    before: float
    after: float
    ratio_before: Estimate
    ratio_after: Estimate


def crossings_of(groups: Sequence[Group]) -> list[Crossing]:
    """The crossovers of all pairs of implementations of a target, from the places that both have."""
    found = []
    for one, other in combinations(groups, 2):
        if _without_name(one.key) != _without_name(other.key):
            continue
        places = sorted(set(one.at) & set(other.at))
        pairs = [(one.entries[one.at.index(at)], other.entries[other.at.index(at)]) for at in places]
        medians = [first.row.time_s.value / second.row.time_s.value for first, second in pairs
                   if first.row.time_s and second.row.time_s]  # fmt: skip
        if medians and min(medians) < 1 < max(medians):
            found += _changes(one, places, pairs)
    return found


def _without_name(key: GroupKey) -> tuple[Any, ...]:
    return (key.target, key.device, key.hardware, key.clock, key.cache, key.precision, key.params)


def _changes(group: Group, places: Sequence[float], pairs: Sequence[tuple[Entry, Entry]]) -> list[Crossing]:
    """Where the sides that the intervals show change from a size to the next one that shows a side."""
    found = []
    last: tuple[float, bool, Estimate] | None = None
    for at, (first, second) in zip(places, pairs, strict=True):
        # Above 1 where the second one is faster.
        ratio = _paired(first, second)
        side = verdict(ratio, group.floor).value if ratio else ""
        if ratio is None or side not in ("FASTER", "SLOWER"):
            continue
        ahead = side == "FASTER"
        if last is not None and last[1] != ahead:
            pair = (first, second) if ahead else (second, first)
            found.append(Crossing(*pair, group.key.target, last[0], at, last[2], ratio))
        last = at, ahead, ratio
    return found


def _paired(first: Entry, second: Entry) -> Estimate | None:
    """The time of the first over that of the second, on shared passes where they took turns."""
    if first.run.id == second.run.id and first.result.target == second.result.target:
        sides = first.blocks(), second.blocks()
        if sides[0] is not None and sides[1] is not None:
            return ratio_interval(sides[0], sides[1])
    if first.row.time_s is None or second.row.time_s is None:
        return None
    return independent_ratio(first.row.time_s, second.row.time_s)


def crossing_table(crossings: Sequence[Crossing], over: str) -> Table:
    """The crossovers."""
    columns = [
        Column("target", "target"),
        Column("below", "faster below"),
        Column("above", "faster from there"),
        Column("before", f"last {over} below", "figure"),
        Column("after", f"first {over} above", "figure"),
    ]
    records = [
        Record(
            {
                "target": one.target,
                "below": one.first.row.name,
                "above": one.second.row.name,
                "before": counted(one.before, "count"),
                "after": counted(one.after, "count"),
            },
            [one.first.origin, one.second.origin],
        )
        for one in crossings
    ]
    note = (
        "At both values the interval of the ratio lies beyond the floor. Between them nothing was measured, or no side "
        "won."
    )
    return Table("crossovers", "crossovers, between measured values", columns, records, note)
