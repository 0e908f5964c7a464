"""Measured points, each predicted from others: how often the ranges of `whatif` hold."""

import math
from collections.abc import Iterator
from itertools import permutations

from attrs import evolve, frozen

from aiperf_analysis.analyses.curves import parameters, points_over
from aiperf_analysis.models import parts
from aiperf_analysis.models.parts import Refused
from aiperf_analysis.models.sizes import at_size
from aiperf_analysis.selection import Entry, Selection
from aiperf_core.sweep import base_name
from aiperf_core.units import parameter

KINDS = ("machine", "clock", "size")
# A relative difference of clocks that is more than their spread.
_OTHER_CLOCK = 0.02


@frozen(eq=False)
class Held:
    """A measured point and its prediction.

    low, high: the predicted range in seconds, without the intervals of the rows that it comes from.
    sources: the rows that predict it.
    """

    kind: str
    name: str
    entry: Entry
    sources: list[Entry]
    low: float
    high: float

    @property
    def measured(self) -> float:
        """The measured time in seconds."""
        return self.entry.row.time_s.value if self.entry.row.time_s else math.nan

    @property
    def widened(self) -> tuple[float, float]:
        """The range, widened by the intervals of its sources."""
        times = [one.row.time_s for one in self.sources if one.row.time_s]
        down, up = min(one.low / one.value for one in times), max(one.high / one.value for one in times)
        return self.low * down, self.high * up

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the widened range."""
        low, high = self.widened
        return low <= self.measured <= high

    @property
    def width(self) -> float:
        """The high end of the widened range over its low end. A wide range holds easily, and says little."""
        low, high = self.widened
        return high / low if low > 0 else math.inf

    @property
    def error(self) -> float:
        """The distance of the middle of the range from the measured time, as a part of it."""
        return abs(math.sqrt(self.low * self.high) / self.measured - 1)


def held_out(selection: Selection) -> list[Held]:
    """The points of a selection that others predict: one machine, one clock or one size left out at a time."""
    return [*_machines(selection), *_clocks(selection), *_sizes(selection.latest())]


def _sizes(selection: Selection) -> Iterator[Held]:
    """Each size of each sweep, from the other sizes."""
    for over in parameters(selection):
        for found in points_over(selection, over).values():
            for at in found:
                places = [one for one in sorted(found) if one != at]
                others = [found[one] for one in places]
                times = [one.row.time_s.value for one in others if one.row.time_s]
                if len(places) < 2:
                    continue
                try:
                    there = at_size(places, times, at, extrapolate=False)
                except Refused:
                    continue
                entry, sources = found[at], [others[index] for index in there.used]
                name = f"{base_name(entry.result.target)}:{entry.row.name} {over}={parameter(at)}"
                yield Held("size", name, entry, sources, there.low, there.high)


def _machines(selection: Selection) -> Iterator[Held]:
    """Each row on a kind of machine, from the same row on another kind."""
    rows: dict[object, dict[str, Entry]] = {}
    for one in sorted(selection.entries, key=lambda entry: entry.run.created):
        rows.setdefault(evolve(one.key, hardware=""), {})[one.hardware] = one
    for found in rows.values():
        for source, target in permutations(found.values(), 2):
            if source.ceilings is not None and target.ceilings is not None:
                yield from _moved("machine", f"{target.name} on {target.hardware}", source, target)


def _moved(kind: str, name: str, source: Entry, target: Entry) -> Iterator[Held]:
    assert source.ceilings is not None
    assert target.ceilings is not None
    try:
        low, high, _ = parts.moved(source.result, source.row, source.ceilings, target.ceilings)
    except Refused:
        return
    if target.row.time_s is not None:
        yield Held(kind, name, target, [source], low, high)


def _clocks(selection: Selection) -> Iterator[Held]:
    """Each row at a clock, from a run of the same row at another one. The newest run at each clock counts."""
    for found in selection.series().values():
        by_clock: dict[float, Entry] = {}
        for one in found:
            clock = clock_of(one)
            if clock is not None and one.ceilings is not None:
                near = next((known for known in by_clock if abs(known / clock - 1) <= _OTHER_CLOCK), clock)
                by_clock[near] = one
        for (now, source), (then, target) in permutations(by_clock.items(), 2):
            assert source.ceilings is not None
            other = parts.scaled(source.ceilings, clock=then / now)
            try:
                low, high, _ = parts.moved(source.result, source.row, source.ceilings, other)
            except Refused:
                continue
            if target.row.time_s is not None:
                yield Held("clock", f"{target.name} at {then / 1e6:.0f} MHz", target, [source], low, high)


def clock_of(entry: Entry) -> float | None:
    """The clock of the processor in Hz while a row was measured, else that of its ceilings."""
    conditions, gpu = entry.row.conditions, entry.result.device == "cuda"
    if conditions is not None:
        spread = conditions.sm_clock_hz if gpu else conditions.cpu_clock_hz
        if spread is not None:
            return spread.median
    return entry.ceilings.sm_clock_hz if gpu and entry.ceilings else None
