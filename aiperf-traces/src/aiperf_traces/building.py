"""Collects the rows that a reader finds, and makes a `Trace` of them."""

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiperf_traces.model import COLUMNS, NONE, Allocations, Ints, Kind, Slices, Trace, Waits

_CHUNK = 50_000  # rows that are kept as Python objects
MOST_NAMES = 1_000_000
MOST_NAME = 2_000  # characters of a name
MOST_NAME_BYTES = 256_000_000
OTHER = "(further names)"

_COMMUNICATION = re.compile(
    r"nccl|rccl|oneccl|nvshmem|multimem_|cross_device_reduce|(?:one|two)_shot_all_reduce|all_?reduce_?(?:kernel|one|two)|"
    r"deep_ep|symm_mem",
    re.IGNORECASE,
)
LAUNCHES = re.compile(
    r"(?:cuda|cu|hip)(?:Launch|GraphLaunch|Memcpy|Memset|ModuleLaunch|ExtLaunch)|urEnqueue", re.IGNORECASE
)
SYNCS = re.compile(r"(?:cuda|cu|hip)\w*Synchronize", re.IGNORECASE)
RANK_IN_NAME = re.compile(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
STEP = re.compile(r"ProfilerStep#\d+")

WORK_KINDS = {"kernel": Kind.COMPUTE, "copy": Kind.COPY, "fill": Kind.FILL}  # by the core's words

# The columns that a reader gives, in this order; the others are computed.
GIVEN = ("start", "end", "kind", "name", "stream", "device", "thread", "correlation", "bytes", "group", "sequence")
Row = tuple[int, int, int, int, int, int, int, int, int, int, int]


class Names:
    """Texts with a number each. Beyond the limits, all further texts share a number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.left_out = 0
        self._known: dict[str, int] = {}
        self._bytes = 0

    def number(self, text: str) -> int:
        """The number of a text."""
        number = self._known.get(text)
        if number is not None:
            return number
        if len(text) > MOST_NAME:
            text = f"{text[: MOST_NAME - 1]}…"
            if text in self._known:
                return self._known[text]
        if len(self.texts) >= MOST_NAMES or self._bytes > MOST_NAME_BYTES:
            self.left_out += 1
            text = OTHER
            if text in self._known:
                return self._known[text]
        self._known[text] = len(self.texts)
        self._bytes += len(text)
        self.texts.append(encodable(text))
        return self._known[text]


def encodable(text: str) -> str:
    """A text with ? in place of surrogates, which no file of UTF-8 holds."""
    return text.encode(errors="replace").decode()


def is_communication(name: str) -> bool:
    """Tell the name of a kernel of a communication library."""
    return _COMMUNICATION.search(name) is not None


def call_kind(name: str) -> Kind:
    """The kind of a call of the runtime."""
    if SYNCS.match(name):
        return Kind.SYNC
    return Kind.LAUNCH if LAUNCHES.match(name) else Kind.CALL


class Builder:
    """Takes rows, and makes the trace."""

    def __init__(self) -> None:
        self.names = Names()
        self.threads = Names()
        self._rows: list[Row] = []
        self.memory: list[tuple[int, int, int, int, int, int, int]] = []
        self.waits: list[tuple[int, int, int, int]] = []
        self.facts: Counter[str] = Counter()
        self._chunks: list[tuple[NDArray[Any], ...]] = []

    def add(
        self,
        start: int,
        end: int,
        kind: int,
        name: int,
        *,
        stream: int = NONE,
        device: int = NONE,
        thread: int = NONE,
        correlation: int = NONE,
        size: int = 0,
        group: int = NONE,
        sequence: int = NONE,
    ) -> None:
        """Add a slice; `name` and `thread` are numbers of `names` and `threads`, `size` is in bytes."""
        self._rows.append((start, end, kind, name, stream, device, thread, correlation, size, group, sequence))
        if len(self._rows) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            table = np.array(self._rows, dtype=np.int64)
            self._chunks.append(tuple(table[:, i].astype(COLUMNS[name]) for i, name in enumerate(GIVEN)))
            self._rows.clear()

    def finish(self, *, rank: int, **fields: Any) -> Trace:
        """The trace. `fields` are further fields of `Trace`."""
        self._flush()
        columns: dict[str, NDArray[Any]] = {}
        for index, name in enumerate(GIVEN):
            parts = [chunk[index] for chunk in self._chunks]
            columns[name] = np.concatenate(parts) if parts else np.empty(0, dtype=COLUMNS[name])
        self._chunks.clear()
        order = np.lexsort((-columns["end"], columns["start"]))
        for name in GIVEN:
            columns[name] = columns[name][order]
        columns["rank"] = np.full(len(order), rank, dtype=np.int32)
        columns["parent"] = parents(columns, self.names.texts)
        facts = {**self.facts, "slices": len(order), "overlapping": overlapping(columns)}
        if self.names.left_out:
            facts["further names"] = self.names.left_out
        slices = Slices(**columns)
        memory = np.array(sorted(self.memory), dtype=np.int64).reshape(-1, 7)
        waits = np.array(self.waits, dtype=np.int64).reshape(-1, 4)
        return Trace(
            slices=slices,
            names=self.names.texts,
            threads=self.threads.texts,
            memory=Allocations(*(memory[:, index] for index in range(7))),
            waits=Waits(*(waits[:, index] for index in range(4))),
            facts=facts,
            **fields,
        )


def overlapping(columns: dict[str, NDArray[Any]]) -> int:
    """The number of slices of devices that begin before the slice before them on their stream has ended."""
    work = np.flatnonzero(columns["kind"] <= Kind.FILL)
    if not len(work):
        return 0
    order = work[np.lexsort((columns["start"][work], columns["stream"][work], columns["device"][work]))]
    device, stream = columns["device"][order], columns["stream"][order]
    same = (device[1:] == device[:-1]) & (stream[1:] == stream[:-1])
    return int(np.count_nonzero(same & (columns["start"][order][1:] < columns["end"][order][:-1])))


_PATH_KINDS = (Kind.OPERATOR, Kind.RANGE)


def parents(columns: dict[str, NDArray[Any]], names: list[str]) -> NDArray[np.int32]:
    """The slice around each slice of the host on its thread, and around the launch of each piece of work of a device.

    Slices around others are operators and ranges; steps of the profiler are not, so that paths are alike in all steps.
    """
    count = len(columns["start"])
    around_each = np.full(count, NONE, dtype=np.int32)
    host = np.flatnonzero((columns["kind"] > Kind.FILL) & (columns["thread"] >= 0))
    host = host[np.argsort(columns["thread"][host], kind="stable")]  # within a thread in the order of start
    around = np.isin(columns["kind"][host], [int(kind) for kind in _PATH_KINDS]).tolist()
    ends, threads = columns["end"][host].tolist(), columns["thread"][host].tolist()
    starts, result = columns["start"][host].tolist(), [NONE] * len(host)
    stack: list[int] = []
    thread = None
    for place, index in enumerate(host.tolist()):
        if threads[place] != thread:
            thread, stack = threads[place], []
            stack_ends: list[int] = []
        start = starts[place]
        while stack and stack_ends[-1] <= start:
            stack.pop()
            stack_ends.pop()
        if stack:
            result[place] = stack[-1]
        if around[place]:
            stack.append(index)
            stack_ends.append(ends[place])
    around_each[host] = result
    launch = launches(columns)
    work = np.flatnonzero((columns["kind"] <= Kind.FILL) & (launch >= 0))
    around_each[work] = around_each[launch[work]]
    return around_each


def launches(columns: dict[str, NDArray[Any]]) -> Ints:
    """The launch of each slice of a device, by its correlation: an index of the columns, NONE where there is none."""
    kind, correlation = columns["kind"], columns["correlation"]
    joined = (correlation != 0) & (correlation != NONE)
    calls = np.flatnonzero((kind >= Kind.LAUNCH) & (kind <= Kind.CALL) & joined)
    launch = np.full(len(kind), NONE, dtype=np.int64)
    if not len(calls):
        return launch
    order = calls[np.argsort(correlation[calls], kind="stable")]
    keys = correlation[order]
    work = np.flatnonzero((kind <= Kind.FILL) & joined)
    place = np.minimum(np.searchsorted(keys, correlation[work]), len(keys) - 1)
    match = keys[place] == correlation[work]
    launch[work[match]] = order[place[match]]
    return launch
