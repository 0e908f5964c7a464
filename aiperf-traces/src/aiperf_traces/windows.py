"""Windows of a trace: steps of the profiler, ranges of a name, or the whole trace."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_traces.model import NONE, Ints, Kind, Trace

AUTO, STEPS, WHOLE = "auto", "steps", "whole"
_NAMED = 8  # ranges that a message names


@frozen
class Window:
    """A stretch of time of a rank, in nanoseconds on the clock of its trace."""

    name: str
    rank: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


def of(trace: Trace, wanted: str = AUTO) -> list[Window]:
    """The windows of a trace in the order of time.

    wanted: `steps`, `whole`, a name or pattern of ranges; `auto` takes the steps, or the whole where there are none.
    Windows of the same rank do not overlap: a range within one of the same pattern is left out.
    Raises UsageError where the trace has no such range.
    """
    slices = trace.slices
    if wanted in (AUTO, STEPS):
        ranges = _ranges(trace, np.flatnonzero(slices.kind == Kind.STEP))
        if ranges:
            return ranges
        if wanted == STEPS:
            raise UsageError(
                f"'{trace.path}' has no steps of the profiler. Call profiler.step() in the loop when recording, or "
                f"give --window whole or the name of a range.{_known(trace)}"
            )
    if wanted in (AUTO, WHOLE):
        return [
            Window("whole", rank, int(slices.start[own].min()), int(slices.end[own].max()))
            for rank in trace.ranks
            for own in [slices.rank == rank]
        ]
    kinds = (slices.kind == Kind.RANGE) | (slices.kind == Kind.STEP)
    numbers = [number for number in np.unique(slices.name[kinds]) if fnmatchcase(trace.names[number], wanted)]
    ranges = _ranges(trace, np.flatnonzero(kinds & np.isin(slices.name, numbers)))
    if not ranges:
        raise UsageError(f"'{trace.path}' has no range {words(wanted)!r}.{_known(trace)}")
    return ranges


def places(windows: Sequence[Window], times: Ints) -> Ints:
    """The place of the window in which each time lies, of windows in the order of time; NONE for other times."""
    starts, ends = (
        np.array([getattr(window, name) for window in windows], dtype=np.int64) for name in ("start", "end")
    )
    index = np.searchsorted(starts, times, side="right") - 1
    return np.where((index >= 0) & (times < np.append(ends, 0)[index]), index, NONE)


def _ranges(trace: Trace, rows: Ints) -> list[Window]:
    windows: list[Window] = []
    ends: dict[int, int] = {}
    for row in rows.tolist():
        rank, start, end = (int(column[row]) for column in (trace.slices.rank, trace.slices.start, trace.slices.end))
        if start >= ends.get(rank, start) and end > start:
            windows.append(Window(trace.names[trace.slices.name[row]], rank, start, end))
            ends[rank] = end
    return windows


def _known(trace: Trace) -> str:
    slices = trace.slices
    kinds = (slices.kind == Kind.RANGE) | (slices.kind == Kind.STEP)
    names = [words(trace.names[number]) for number in np.unique(slices.name[kinds])]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" Ranges in it: {', '.join(map(repr, names[:_NAMED]))}{more}." if names else " It has no ranges at all."
