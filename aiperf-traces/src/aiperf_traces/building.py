"""Collects the rows that a reader finds, and makes a `Trace` of them."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiperf_traces.model import COLUMNS, NONE, Allocations, Ints, Kind, Slices, Trace, Waits

CHUNK = 50_000  # rows that are kept as Python objects
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
        found = self._known.get(text)
        if found is not None:
            return found
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
    """Whether the kernel of this name belongs to a communication library."""
    return _COMMUNICATION.search(name) is not None


def call_kind(name: str) -> Kind:
    """What a call of the runtime does."""
    if SYNCS.match(name):
        return Kind.SYNC
    return Kind.LAUNCH if LAUNCHES.match(name) else Kind.CALL


class Builder:
    """Takes rows, and makes the trace."""

    def __init__(self) -> None:
        self.names = Names()
        self.threads = Names()
        self.rows: list[Row] = []
        self.memory: list[tuple[int, int, int, int, int, int, int]] = []
        self.waits: list[tuple[int, int, int, int]] = []
        self.facts: dict[str, int] = {}
        self._chunks: list[tuple[NDArray[Any], ...]] = []

    def count(self, fact: str) -> None:
        """Count something that a reader met."""
        self.facts[fact] = self.facts.get(fact, 0) + 1

    def settle(self) -> None:
        """Turn the rows into columns where there are many. To be called after rows were added."""
        if len(self.rows) >= CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self.rows:
            table = np.array(self.rows, dtype=np.int64)
            self._chunks.append(tuple(table[:, i].astype(COLUMNS[name]) for i, name in enumerate(GIVEN)))
            self.rows.clear()

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
    """Of each slice of the host the slice around it on its thread; of work of a device, the slice around its launch.

    Slices around others are operators and ranges; steps of the profiler are not, so that paths are alike in all steps.
    """
    count = len(columns["start"])
    found = np.full(count, NONE, dtype=np.int32)
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
    found[host] = result
    launch = launches(columns)
    work = np.flatnonzero((columns["kind"] <= Kind.FILL) & (launch >= 0))
    found[work] = found[launch[work]]
    return found


def launches(columns: dict[str, NDArray[Any]]) -> Ints:
    """The launch of each slice of a device, by its correlation: an index of the columns, NONE where there is none."""
    kind, correlation = columns["kind"], columns["correlation"]
    joined = (correlation != 0) & (correlation != NONE)
    calls = np.flatnonzero((kind >= Kind.LAUNCH) & (kind <= Kind.CALL) & joined)
    found = np.full(len(kind), NONE, dtype=np.int64)
    if not len(calls):
        return found
    order = calls[np.argsort(correlation[calls], kind="stable")]
    keys = correlation[order]
    work = np.flatnonzero((kind <= Kind.FILL) & joined)
    place = np.minimum(np.searchsorted(keys, correlation[work]), len(keys) - 1)
    match = keys[place] == correlation[work]
    found[work[match]] = order[place[match]]
    return found
