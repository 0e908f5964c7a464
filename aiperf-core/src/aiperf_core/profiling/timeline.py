"""Hot spots and idle gaps of a time line of GPU work."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import define, field, frozen

from aiperf_core.profiler import Hot


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
    spans = [(piece.start, piece.end) for call in calls for piece in call.pieces]
    found = {
        "call_s": sum(call.seconds for call in calls) / count,
        "launches": sum(call.launches for call in calls) / count,
        "kernels": sum(piece.kind == "kernel" for call in calls for piece in call.pieces) / count,
        "copied_bytes": sum(piece.bytes for call in calls for piece in call.pieces if piece.kind == "copy") / count,
    }
    if not spans:
        return found
    busy = gaps = idle = 0.0
    for call in calls:
        for length, gap in _stretches((piece.start, piece.end) for piece in call.pieces):
            busy, idle, gaps = busy + length, idle + gap, gaps + (gap > 0)
    return {
        **found,
        "span_s": (busy + idle) / count,
        "busy_s": busy / count,
        "gaps": gaps / count,
        "idle_s": idle / count,
        "idle_share": idle / (busy + idle) if busy + idle else 0.0,
    }


def _stretches(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The busy stretches of all streams together: length in seconds, and the gap before it."""
    busy: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if busy and start <= busy[-1][1]:
            busy[-1] = busy[-1][0], max(busy[-1][1], end)
        else:
            busy.append((start, end))
    gaps = (0.0, *(after[0] - before[1] for before, after in pairwise(busy)))
    return [(end - start, gap) for (start, end), gap in zip(busy, gaps, strict=False)]
