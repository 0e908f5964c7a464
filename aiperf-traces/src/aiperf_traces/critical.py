"""The critical path of a window: which chain of work and waits decides how long it takes.

The nodes of a graph are moments: begin and end of work, and calls that launch or wait. Its edges are what must pass
between two moments:
- program order of a host thread: the time that passed, except in calls that wait and where another thread takes over;
- from a launch to its work: the delay where the stream was free and it is at most `MOST_DELAY`, else the shortest;
- order of a stream: the gap, where it is at most `SHORT_GAP` and nothing else explains it, else nothing;
- waits for events, where the trace records them, and synchronisations: nothing;
- collectives: from the last arrival, the time until each rank leaves.
No edge is longer than the time that passed, so the longest path is at most the window. What is missing was waited for
something that the trace does not show.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from attrs import define, field, frozen

from aiperf_core.profiling.timeline import union_of
from aiperf_traces.breakdown import launches_of
from aiperf_traces.model import NONE, Ints, Kind, Trace
from aiperf_traces.ranks import Clocks, Collectives
from aiperf_traces.windows import Window

SHORT_GAP = 5_000  # ns between two kernels of a stream, without anything to wait for
MOST_DELAY = 50_000  # ns from a launch to its work on a stream that is free
MOST_NODES = 2_000_000


class Cause(IntEnum):
    """The causes of the time of an edge."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    HOST = 3
    LAUNCH = 4  # delays between launch and work, and between kernels
    NOTHING = 5


_DEVICE_SYNC = re.compile(r"cudaDevice|cuCtx|hipDevice")  # waits for all streams
WORDS = ("compute", "communication", "copies", "host", "launch delays", "-")
_OF_KIND = {Kind.COMPUTE: Cause.COMPUTE, Kind.COMMUNICATION: Cause.COMMUNICATION}


@define
class Graph:
    """Nodes with a time, and edges from earlier to later ones; `row` is the slice whose work an edge is, or NONE."""

    times: list[int] = field(factory=list)
    tail: list[int] = field(factory=list)
    head: list[int] = field(factory=list)
    weight: list[int] = field(factory=list)
    cause: list[int] = field(factory=list)
    row: list[int] = field(factory=list)
    rank: list[int] = field(factory=list)

    def node(self, time: int) -> int:
        """A new node."""
        self.times.append(time)
        return len(self.times) - 1

    def edge(self, tail: int, head: int, weight: int, cause: Cause, row: int = NONE, rank: int = 0) -> None:
        """A new edge, with a weight from 0 to the time that passed. An edge back in time is left out."""
        passed = self.times[head] - self.times[tail]
        if passed < 0 or tail == head:
            return
        self.tail.append(tail)
        self.head.append(head)
        self.weight.append(min(max(weight, 0), passed))
        self.cause.append(int(cause))
        self.row.append(row)
        self.rank.append(rank)


@frozen
class Step:
    """An edge of the critical path: its cause, nanoseconds, and the slice and rank, or NONE."""

    cause: Cause
    time: int
    row: int
    rank: int


@frozen(eq=False)
class CriticalPath:
    """The longest path.

    window: nanoseconds that passed. length: of the longest path.
    steps: its edges with a time.
    causes: nanoseconds of the path by cause.
    without: the length of the longest path where a cause takes no time: a lower bound of the new time.
    slack: of each slice of a device its slack in nanoseconds, by rank and slice.
    edges: the number of edges. waits_known: whether the trace records waits of streams for events.
    """

    window: int
    length: int
    steps: list[Step]
    causes: dict[Cause, int]
    without: dict[Cause, int]
    slack: dict[tuple[int, int], int]
    edges: int
    waits_known: bool


def critical_path(
    traces: Sequence[Trace], windows: Sequence[Window], collectives: Collectives | None, clocks: Clocks | None
) -> CriticalPath | None:
    """The critical path of a window of one rank, or of the same step on several ranks.

    windows: a window for each trace, on the clock of its trace. None where there are more than `MOST_NODES` moments.
    """
    shift = {window.rank: _offset(window.rank, collectives, clocks) for window in windows}
    begin = min(window.start - shift[window.rank] for window in windows)
    finish = max(window.end - shift[window.rank] for window in windows)
    graph = Graph()
    source, sink = graph.node(begin), graph.node(finish)
    places: dict[tuple[int, int], tuple[int, int]] = {}
    inner: dict[tuple[int, int], int] = {}
    if collectives is not None and clocks is not None:
        inner = _meetings(graph, traces, collectives, clocks, windows)
    known = False
    for trace, window in zip(traces, windows, strict=True):
        part = _Rank(graph, trace, window, shift[window.rank], source, sink, places, inner)
        known |= part.waits_known
        if not part.add():
            return None
    return _solve(graph, source, sink, places, known)


def _offset(rank: int, collectives: Collectives | None, clocks: Clocks | None) -> int:
    if collectives is None or clocks is None:
        return 0
    return next((int(clocks.offset[place]) for place, one in enumerate(collectives.members) if one[0] == rank), 0)


def _meetings(
    graph: Graph, traces: Sequence[Trace], collectives: Collectives, clocks: Clocks, windows: Sequence[Window]
) -> dict[tuple[int, int], int]:
    """A node for the last arrival at each collective, by rank and slice of every member."""
    nodes: dict[tuple[int, int], int] = {}
    of_rank = {window.rank: window for window in windows}
    for line in range(len(collectives.rows)):
        there = [
            place
            for place, (rank, _) in enumerate(collectives.members)
            if collectives.rows[line, place] != NONE
            and rank in of_rank
            and clocks.known[place]
            and of_rank[rank].start <= collectives.start[line, place] < of_rank[rank].end
        ]
        if len(there) < 2:
            continue
        last = max(int(collectives.start[line, place] - clocks.offset[place]) for place in there)
        meeting = graph.node(last)
        for place in there:
            nodes[collectives.members[place][0], int(collectives.rows[line, place])] = meeting
    return nodes


class _Rank:
    """Adds the nodes and edges of a rank."""

    def __init__(
        self,
        graph: Graph,
        trace: Trace,
        window: Window,
        shift: int,
        source: int,
        sink: int,
        places: dict[tuple[int, int], tuple[int, int]],
        meetings: dict[tuple[int, int], int],
    ) -> None:
        self.graph, self.trace, self.window, self.shift = graph, trace, window, shift
        self.source, self.sink, self.places, self.meetings = source, sink, places, meetings
        slices = trace.slices
        own = slices.rank == window.rank
        launch = launches_of(trace)
        called = (launch >= 0) & (slices.start[np.maximum(launch, 0)] < window.end)
        begun = (slices.start >= window.start) & (slices.end <= window.end)
        self.work: Ints = np.flatnonzero(own & slices.on_device & begun & (called | (launch < 0)))
        self.launch = launch
        host = own & begun & (slices.thread >= 0)
        self.calls: Ints = np.flatnonzero(host & ((slices.kind == Kind.LAUNCH) | (slices.kind == Kind.SYNC)))
        self.host: Ints = np.flatnonzero(host & (slices.kind != Kind.STEP))
        self.waits_known = bool((trace.waits.record != NONE).any())
        self.waiting: dict[int, list[int]] = {}
        self.begins: dict[int, int] = {}  # node where a call of the host begins, by its slice

    def add(self) -> bool:
        """Add everything; False where it is too much."""
        if len(self.graph.times) + 2 * len(self.work) + 3 * len(self.calls) > MOST_NODES:
            return False
        for row in self.work.tolist():
            self._piece(row)
        self.waiting = self._waits()
        self._threads()
        self._launches()
        self._streams()
        self._synchronisations()
        return True

    def _at(self, time: int) -> int:
        return int(time) - self.shift

    def _piece(self, row: int) -> None:
        slices, graph = self.trace.slices, self.graph
        begin, finish = graph.node(self._at(slices.start[row])), graph.node(self._at(slices.end[row]))
        self.places[self.window.rank, row] = begin, finish
        cause = _OF_KIND.get(Kind(int(slices.kind[row])), Cause.COPY)
        meeting = self.meetings.get((self.window.rank, row))
        length = int(slices.end[row] - slices.start[row])
        if meeting is not None and graph.times[meeting] <= graph.times[finish]:
            graph.edge(begin, meeting, 0, Cause.NOTHING)
            graph.edge(meeting, finish, length, cause, row, self.window.rank)
        else:
            graph.edge(begin, finish, length, cause, row, self.window.rank)
        graph.edge(finish, self.sink, 0, Cause.NOTHING)

    def _threads(self) -> None:
        """Program order of the threads, and the gaps in which another thread takes over."""
        slices, graph, rank = self.trace.slices, self.graph, self.window.rank
        spans = {
            int(thread): union_of(slices.start[rows], slices.end[rows])
            for thread in np.unique(slices.thread[self.host])
            for rows in [self.host[slices.thread[self.host] == thread]]
        }
        points: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # time, order, slice
        for row in self.calls.tolist():
            points[int(slices.thread[row])].append((int(slices.start[row]), 0, row))
        nodes: dict[tuple[int, int], int] = {}
        handed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        crossings: list[tuple[int, int, int, int]] = []
        for thread, (starts, ends) in spans.items():
            gaps = zip([self.window.start, *ends.tolist()], [*starts.tolist(), self.window.end], strict=True)
            for begin, finish in gaps:
                inside = [
                    (other, int(s[first]), int(e[last - 1]))
                    for other, (s, e) in spans.items()
                    if other != thread
                    for first, last in [(int(np.searchsorted(s, begin)), int(np.searchsorted(e, finish, side="right")))]
                    if first < last
                ]
                if inside and finish > begin:
                    handed[thread].append((begin, finish))
                    crossings += [(thread, begin, other, first) for other, first, _ in inside]
                    crossings += [(other, last, thread, finish) for other, _, last in inside]
        moments: dict[int, set[int]] = defaultdict(set)
        for thread, begin, other, first in crossings:
            moments[thread].add(begin)
            moments[other].add(first)
        for thread in spans:
            waits = [
                (int(slices.start[row]), int(slices.end[row]))
                for _, _, row in points[thread]
                if slices.kind[row] == Kind.SYNC
            ]
            times = sorted(
                {self.window.start, self.window.end}
                | {time for time, _, _ in points[thread]}
                | {time for pair in waits for time in pair}
                | {time for pair in handed[thread] for time in pair}
                | moments[thread]
            )
            free = sorted(waits + handed[thread])
            before = self.source
            for index, time in enumerate(times):
                node = nodes[thread, time] = graph.node(self._at(time))
                earlier = times[index - 1] if index else time
                idle = any(begin <= earlier and time <= finish for begin, finish in _near(free, earlier))
                graph.edge(
                    before, node, 0 if idle else time - earlier, Cause.NOTHING if idle else Cause.HOST, NONE, rank
                )
                before = node
            graph.edge(before, self.sink, 0, Cause.NOTHING)
            for time, _, row in points[thread]:
                self.begins[row] = nodes[thread, time]
        for thread, begin, other, first in crossings:
            tail, head = nodes.get((thread, begin)), nodes.get((other, first))
            if tail is not None and head is not None:
                graph.edge(tail, head, first - begin, Cause.HOST, NONE, rank)
        self._nodes = nodes

    def _launches(self) -> None:
        """From launches to their work."""
        slices, graph, rank = self.trace.slices, self.graph, self.window.rank
        launch = self.launch[self.work]
        there = launch >= 0
        delays = slices.start[self.work[there]] - slices.start[launch[there]]
        least = max(0, int(delays.min())) if len(delays) else 0
        last: dict[tuple[int, int], int] = {}
        for row in self.work.tolist():
            stream = int(slices.device[row]), int(slices.stream[row])
            call = int(self.launch[row])
            begin = self.places[rank, row][0]
            node = self.begins.get(call)
            if node is None:
                graph.edge(self.source, begin, 0, Cause.NOTHING)
            else:
                free = last.get(stream, self.window.start) <= slices.start[call] and row not in self.waiting
                passed = int(slices.start[row] - slices.start[call])
                # A longer delay has another reason, such as a wait that the trace does not record.
                whole = free and passed <= MOST_DELAY
                graph.edge(node, begin, passed if whole else min(least, passed), Cause.LAUNCH, row, rank)
            last[stream] = max(last.get(stream, 0), int(slices.end[row]))

    def _streams(self) -> None:
        """Order of the streams, and waits for events."""
        slices, graph, rank = self.trace.slices, self.graph, self.window.rank
        before: dict[tuple[int, int], int] = {}
        waiting = self.waiting
        for row in self.work.tolist():
            stream = int(slices.device[row]), int(slices.stream[row])
            begin, call = self.places[rank, row][0], int(self.launch[row])
            for other in waiting.get(row, ()):
                graph.edge(self.places[rank, other][1], begin, 0, Cause.NOTHING)
            if stream in before:
                earlier = before[stream]
                gap = int(slices.start[row] - slices.end[earlier])
                queued = call >= 0 and slices.start[call] < slices.end[earlier]
                short = queued and gap <= SHORT_GAP and row not in waiting
                graph.edge(self.places[rank, earlier][1], begin, gap if short else 0, Cause.LAUNCH, NONE, rank)
            before[stream] = row

    def _waits(self) -> dict[int, list[int]]:
        """The slices of other streams that the stream of a slice waits for, by slice."""
        slices, waits = self.trace.slices, self.trace.waits
        by_call = {
            int(slices.correlation[row]): int(slices.start[row])
            for row in np.flatnonzero((slices.kind == Kind.CALL) & (slices.rank == self.window.rank)).tolist()
            if slices.correlation[row] not in (0, NONE)
        }
        launched: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by stream: time of the launch, slice
        for row in self.work.tolist():
            if self.launch[row] >= 0:
                launched[int(slices.stream[row])].append((int(slices.start[self.launch[row]]), row))
        for rows in launched.values():
            rows.sort()
        producers_of: dict[int, list[int]] = defaultdict(list)
        for correlation, stream, on, record in zip(
            *(column.tolist() for column in (waits.correlation, waits.stream, waits.on_stream, waits.record)),
            strict=True,
        ):
            waited, recorded = by_call.get(correlation), by_call.get(record)
            if waited is None or recorded is None or record == NONE:
                continue
            producers = [row for time, row in launched.get(on, ()) if time <= recorded]
            consumers = [row for time, row in launched.get(stream, ()) if time >= waited]
            if producers and consumers and stream != on:
                producers_of[consumers[0]].append(producers[-1])
        return producers_of

    def _synchronisations(self) -> None:
        """From the work that a call of the host waited for to the return of the call."""
        slices, graph, rank = self.trace.slices, self.graph, self.window.rank
        waits = self.trace.waits
        stream_of = dict(zip(waits.correlation.tolist(), waits.stream.tolist(), strict=True))
        order = self.work[np.argsort(slices.end[self.work], kind="stable")]
        ends = slices.end[order]
        for row in self.calls.tolist():
            if slices.kind[row] != Kind.SYNC:
                continue
            finish, begin = int(slices.end[row]), int(slices.start[row])
            node = self._nodes.get((int(slices.thread[row]), finish))
            until = int(np.searchsorted(ends, finish, side="right"))
            since = int(np.searchsorted(ends, begin, side="left"))
            stream = stream_of.get(int(slices.correlation[row]), NONE)
            waited = order[since:until]
            waited = waited[slices.start[np.maximum(self.launch[waited], 0)] < begin]
            if stream != NONE:
                waited = waited[slices.stream[waited] == stream]
            if node is None:
                continue
            if not len(waited):
                # There was nothing to wait for: the call itself took the time.
                graph.edge(self.begins[row], node, finish - begin, Cause.HOST, NONE, rank)
                continue
            last = [int(waited[-1])]
            if _DEVICE_SYNC.match(self.trace.names[slices.name[row]]):
                last = list(
                    {(int(slices.device[one]), int(slices.stream[one])): one for one in waited.tolist()}.values()
                )
            for one in last:
                graph.edge(self.places[rank, one][1], node, finish - int(slices.end[one]), Cause.HOST, NONE, rank)


def _near(free: list[tuple[int, int]], time: int) -> list[tuple[int, int]]:
    """The stretches that may contain a time. Stretches of a thread hardly overlap: three before it are enough."""
    place = bisect_right(free, (time, 1 << 62))
    return free[max(0, place - 3) : place]


def _solve(
    graph: Graph, source: int, sink: int, places: dict[tuple[int, int], tuple[int, int]], waits_known: bool
) -> CriticalPath:
    """The longest path from source to sink, the slack, and the paths without a cause."""
    count = len(graph.times)
    tail, head = np.array(graph.tail, dtype=np.int64), np.array(graph.head, dtype=np.int64)
    weight, cause = np.array(graph.weight, dtype=np.int64), np.array(graph.cause, dtype=np.int64)
    order = _topological(count, tail, head)
    rank_of = np.empty(count, dtype=np.int64)
    rank_of[order] = np.arange(count)
    by_head = np.argsort(rank_of[head], kind="stable")
    earliest, through = _longest(count, tail[by_head], head[by_head], weight[by_head], source)
    length = earliest[sink]
    steps: list[Step] = []
    causes: dict[Cause, int] = dict.fromkeys((one for one in Cause if one is not Cause.NOTHING), 0)
    node = sink
    while through[node] != NONE:
        edge = int(by_head[through[node]])
        if weight[edge]:
            one = Cause(int(cause[edge]))
            causes[one] += int(weight[edge])
            steps.append(Step(one, int(weight[edge]), graph.row[edge], graph.rank[edge]))
        node = int(tail[edge])
    by_tail = np.argsort(-rank_of[tail], kind="stable")
    latest, _ = _longest(count, head[by_tail], tail[by_tail], weight[by_tail], sink)
    slack = {
        key: length - earliest[finish] - latest[finish]
        for key, (_, finish) in places.items()
        if earliest[finish] >= 0 and latest[finish] >= 0
    }
    without: dict[Cause, int] = {}
    for one in causes:
        freed = np.where(cause == one, 0, weight)
        without[one] = _longest(count, tail[by_head], head[by_head], freed[by_head], source)[0][sink]
    window = graph.times[sink] - graph.times[source]
    return CriticalPath(window, length, steps[::-1], causes, without, slack, len(tail), waits_known)


def _longest(count: int, tail: Ints, head: Ints, weight: Ints, start: int) -> tuple[list[int], list[int]]:
    """The greatest distance of each node from `start` (-1: not reached), and the edge through which it is reached."""
    far, through = [-1] * count, [NONE] * count
    far[start] = 0
    for index, (one, other, length) in enumerate(zip(tail.tolist(), head.tolist(), weight.tolist(), strict=True)):
        if far[one] >= 0 and far[one] + length > far[other]:
            far[other] = far[one] + length
            through[other] = index
    return far, through


def _topological(count: int, tail: Ints, head: Ints) -> Ints:
    """The nodes so that every edge leads forward (Kahn, Communications of the ACM 5, 1962)."""
    order = np.argsort(tail, kind="stable")
    ends = head[order].tolist()
    first = np.searchsorted(tail[order], np.arange(count + 1)).tolist()
    missing = np.bincount(head, minlength=count).tolist()
    ready = [node for node in range(count) if not missing[node]]
    for node in ready:  # grows while it is read
        for place in range(first[node], first[node + 1]):
            other = ends[place]
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    reached = set(ready)
    # Moments at one time may wait for each other where a trace is damaged; they come last.
    return np.array(ready + [node for node in range(count) if node not in reached], dtype=np.int64)
