"""The spans of a flame graph and of a timeline: at most `MOST` of them, as a picture can show."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from aiperf_core.names import words
from aiperf_core.report.result import Span
from aiperf_traces.model import NONE, WORDS, Ints, Kind, Trace
from aiperf_traces.paths import short
from aiperf_traces.totals import Totals
from aiperf_traces.windows import Window

MOST = 2000
_SECOND = 1e9
_LABEL = 120  # characters
_KERNELS = ("compute", "communication")  # kinds whose names are signatures


def flame(totals: Totals) -> list[Span]:
    """A flame graph of seconds per window: paths of operators, with the work below them; small pieces are joined."""
    tree: dict[tuple[str, ...], int] = defaultdict(int)
    kinds: dict[tuple[str, ...], str] = {}
    for piece in totals.pieces.values():
        whole = (*piece.path, piece.name)
        if piece.alone <= 0:
            continue
        for depth in range(1, len(whole) + 1):
            tree[whole[:depth]] += piece.alone
            kinds.setdefault(whole[:depth], "operator")
        kinds[whole] = piece.kind
    # The largest are kept; a child is never larger than its parent, which therefore is kept too.
    order = sorted(tree, key=lambda path: (-tree[path], len(path), path))[: MOST * 3 // 4]
    kept = set(order)
    children: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for path in order:
        children[path[:-1]].append(path)
    left: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for path, time in tree.items():
        if path not in kept and (path[:-1] in kept or len(path) == 1):
            left[path[:-1]].append(time)
    scale = _SECOND * max(totals.windows, 1)
    spans: list[Span] = []
    todo: list[tuple[tuple[str, ...], float]] = [((), 0.0)]
    while todo:
        parent, start = todo.pop()
        for path in children[parent]:
            length = tree[path] / scale
            spans.append(_span(words(path[-1]), str(len(path) - 1), start, length, kinds[path]))
            todo.append((path, start))
            start += length
        if left.get(parent) and len(spans) < MOST:
            rest = left[parent]
            spans.append(_span(f"{len(rest):,} smaller", str(len(parent)), start, sum(rest) / scale, "joined"))
    return spans[:MOST]


def _span(label: str, lane: str, start: float, length: float, kind: str) -> Span:
    label = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
    name = short(label) if kind in _KERNELS else ""
    return Span(label=label, lane=lane, start=start, length=length, kind=kind, short=name)


def timeline(traces: Sequence[Trace], windows: Sequence[Window], offsets: dict[int, int]) -> list[Span]:
    """A timeline of windows of several ranks, in seconds from the first; of too many, short neighbours are joined.

    offsets: nanoseconds by which the clock of a rank is ahead.
    """
    first = min((window.start - offsets.get(window.rank, 0) for window in windows), default=0)
    lanes: list[tuple[str, Trace, Ints, Window]] = []
    several = len({window.rank for window in windows}) > 1
    for trace in traces:
        for window in windows:
            lanes += _lanes(trace, window, several)
    smallest = 0
    span = max((window.length for window in windows), default=0)
    while True:
        spans = [one for lane in lanes for one in _joined(*lane, smallest, first, offsets)]
        if len(spans) <= MOST:
            return spans
        smallest = max(2 * smallest, span // 4000, 1)


def _lanes(trace: Trace, window: Window, several: bool) -> list[tuple[str, Trace, Ints, Window]]:
    slices = trace.slices
    inside = (slices.rank == window.rank) & (slices.start < window.end) & (slices.end > window.start)
    work = np.flatnonzero(inside & slices.on_device)
    lanes = []
    head = f"rank {window.rank}, " if several else ""
    for device, stream in np.unique(np.stack([slices.device[work], slices.stream[work]]), axis=1).T.tolist():
        rows = work[(slices.device[work] == device) & (slices.stream[work] == stream)]
        lanes.append((f"{head}GPU {device}, stream {stream}", trace, rows, window))
    # The outermost operators, and calls outside of operators.
    around = np.where(slices.parent == NONE, Kind.RANGE, slices.kind[np.maximum(slices.parent, 0)])
    outer = (around == Kind.RANGE) & np.isin(slices.kind, [Kind.OPERATOR, Kind.SYNC, Kind.LAUNCH])
    host = np.flatnonzero(inside & outer)
    for thread in np.unique(slices.thread[host]).tolist():
        rows = host[slices.thread[host] == thread]
        lanes.append((f"{head}thread {trace.threads[thread] if thread != NONE else '?'}", trace, rows, window))
    return lanes


def _joined(
    lane: str, trace: Trace, rows: Ints, window: Window, smallest: int, first: int, offsets: dict[int, int]
) -> list[Span]:
    """The slices of a lane. Neighbours shorter than `smallest` ns that begin in the same stretch of it are one span."""
    slices = trace.slices
    starts = np.maximum(slices.start[rows], window.start)
    ends = np.maximum.accumulate(np.minimum(slices.end[rows], window.end))
    kinds = np.array([WORDS[Kind(kind)] for kind in slices.kind[rows].tolist()])
    if not len(rows):
        return []
    new = np.ones(len(rows), dtype=bool)
    if smallest:
        large = ends - starts >= smallest
        place = (starts - window.start) // smallest
        new[1:] = large[1:] | large[:-1] | (place[1:] != place[:-1])
    heads = np.flatnonzero(new)
    tails = np.append(heads[1:], len(rows)) - 1
    shift = first + offsets.get(window.rank, 0)
    spans = []
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        many = tail - head + 1
        longest = head + int((ends[head : tail + 1] - starts[head : tail + 1]).argmax())
        name = words(trace.names[slices.name[rows[longest]]])
        label = name if many == 1 else f"{many:,} pieces, the longest: {name}"
        start, length = int(starts[head] - shift) / _SECOND, int(ends[tail] - starts[head]) / _SECOND
        spans.append(_span(label, lane, start, length, str(kinds[longest])))
    return spans
