"""Hot spots and idle gaps of a time line of GPU work."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from aiperf_core.profiler import Hot

# How the names of the calls begin that launch kernels and graphs.
KERNEL_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")
Number = TypeVar("Number", np.int64, np.float64)


@frozen
class Piece:
    """A kernel, copy or fill: start and end in seconds, bytes moved, and the operator that launched it."""

    name: str
    kind: str
    start: float
    end: float
    bytes: float = 0.0
    by: str | None = None
    metrics: dict[str, float] = field(factory=dict)


@define
class Call:
    """One call, or several in a row: its seconds on the host, its GPU work, and the number of launches."""

    seconds: float
    pieces: list[Piece] = field(factory=list)
    launches: int = 0


def hot(calls: Sequence[Call], count: int) -> list[Hot]:
    """The work by name, the longest first; figures are the average of `count` calls."""
    groups: dict[tuple[str, str, str | None], list[Piece]] = defaultdict(list)
    for piece in (piece for call in calls for piece in call.pieces):
        groups[piece.name, piece.kind, piece.by].append(piece)
    total = sum(piece.end - piece.start for pieces in groups.values() for piece in pieces)
    found = []
    for (name, kind, by), pieces in groups.items():
        seconds = sum(piece.end - piece.start for piece in pieces)
        found.append(
            Hot(
                name=name,
                kind=kind,
                by=by,
                count=len(pieces) / count,
                seconds=seconds / count,
                share=seconds / total if total else 0.0,
                bytes=sum(piece.bytes for piece in pieces) / count if kind != "kernel" else None,
                metrics=pieces[0].metrics,
            )
        )
    return sorted(found, key=lambda one: -(one.seconds or 0.0))


def figures(calls: Sequence[Call], count: int) -> dict[str, float]:
    """Launches, kernels, bytes copied, and busy and idle time between the first and the last piece; of one call."""
    found = {
        "call_s": sum(call.seconds for call in calls) / count,
        "launches": sum(call.launches for call in calls) / count,
        "kernels": sum(piece.kind == "kernel" for call in calls for piece in call.pieces) / count,
        "copied_bytes": sum(piece.bytes for call in calls for piece in call.pieces if piece.kind == "copy") / count,
    }
    if not any(call.pieces for call in calls):
        return found
    busy = gaps = idle = 0.0
    for call in calls:
        starts, ends = union_of(*np.array([(piece.start, piece.end) for piece in call.pieces]).reshape(-1, 2).T)
        busy += float((ends - starts).sum())
        idle += float((starts[1:] - ends[:-1]).sum())
        gaps += max(len(starts) - 1, 0)
    return {
        **found,
        "span_s": (busy + idle) / count,
        "busy_s": busy / count,
        "gaps": gaps / count,
        "idle_s": idle / count,
        "idle_share": idle / (busy + idle) if busy + idle else 0.0,
    }


def union_of(starts: NDArray[Number], ends: NDArray[Number]) -> tuple[NDArray[Number], NDArray[Number]]:
    """The union of intervals as disjoint intervals, sorted. Intervals that touch become one."""
    if not len(starts):
        return starts[:0], ends[:0]
    order = np.argsort(starts, kind="stable")
    begin, finish = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], begin[1:] > finish[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(begin) - 1]])
    return begin[first], finish[last]
