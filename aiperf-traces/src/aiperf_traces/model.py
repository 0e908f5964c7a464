"""A trace in columns of numpy: an entry for each slice of time, sorted by start. Times are nanoseconds."""

from enum import IntEnum
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NONE = -1  # of a column: the trace does not say


class Kind(IntEnum):
    """The kinds of slices. The first four are work of a device; the others happen on the host."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    FILL = 3
    OPERATOR = 4
    LAUNCH = 5  # a call of the runtime that starts work of a device
    SYNC = 6  # a call of the runtime that waits for a device
    CALL = 7  # another call of the runtime
    RANGE = 8  # an NVTX range or an annotation
    STEP = 9  # a step of the profiler


WORDS = {
    Kind.COMPUTE: "compute",
    Kind.COMMUNICATION: "communication",
    Kind.COPY: "copy",
    Kind.FILL: "copy",
    Kind.OPERATOR: "operator",
    Kind.LAUNCH: "launch",
    Kind.SYNC: "synchronisation",
    Kind.CALL: "call",
    Kind.RANGE: "range",
    Kind.STEP: "step",
}
DEVICE_KINDS = Kind.FILL  # kinds up to this one are work of a device

COLUMNS: dict[str, Any] = {
    "start": np.int64,
    "end": np.int64,
    "kind": np.int8,
    "name": np.int32,
    "stream": np.int64,
    "device": np.int64,
    "rank": np.int32,
    "thread": np.int32,
    "correlation": np.int64,
    "bytes": np.int64,
    "group": np.int32,
    "sequence": np.int64,
    "parent": np.int32,
}


@frozen(eq=False)
class Slices:
    """The slices of a trace; every field is a column with an entry for each.

    start, end: nanoseconds on the clock of the trace.
    kind: a `Kind`.
    name: an index of `Trace.names`.
    stream, device: of work of a device; NONE for the host.
    rank: the rank of the process.
    thread: an index of `Trace.threads`; NONE for work of a device.
    correlation: joins a launch and the work that it starts.
    bytes: of a copy or a fill, and the message of a collective where the trace has it; else 0.
    group, sequence: of a collective its group, an index of `Trace.names`, and its number within the group.
    parent: the slice of the host around it, or around its launch: an index of these columns.
    """

    start: Ints
    end: Ints
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    stream: Ints
    device: Ints
    rank: NDArray[np.int32]
    thread: NDArray[np.int32]
    correlation: Ints
    bytes: Ints
    group: NDArray[np.int32]
    sequence: Ints
    parent: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def on_device(self) -> Bools:
        """A mask of the slices that are work of a device."""
        return np.asarray(self.kind <= DEVICE_KINDS)


@frozen(eq=False)
class Allocations:
    """Allocations and frees of memory, in the order of time; a free has negative bytes.

    device: NONE for the host. thread: an index of `Trace.threads`.
    total, reserved: bytes allocated, and reserved by the allocator, after the event; NONE where the trace does not say.
    """

    time: Ints
    bytes: Ints
    address: Ints
    total: Ints
    device: Ints
    thread: Ints
    reserved: Ints


@frozen(eq=False)
class Waits:
    """Waits of a stream for an event of another stream, or of the host for a stream, where the trace records them.

    correlation: of the call that waits. stream: that waits. on_stream: that recorded the event, or NONE.
    record: correlation of the call that recorded the event, or NONE.
    """

    correlation: Ints
    stream: Ints
    on_stream: Ints
    record: Ints


@frozen(kw_only=True, eq=False)
class Trace:
    """A trace of one file.

    tool: `kineto` or `nsys`.
    world: the number of ranks of the job; None where the trace does not say.
    rank_known: whether the file says the rank, or its name does.
    notes: what a reader of the figures must know, such as how far a truncated file was read.
    facts: counts of the reader by name: `events`, `backwards`, `overlapping` and so on.
    resolution: nanoseconds by which times may be off, by the digits in the file.
    """

    path: str
    tool: str
    slices: Slices
    names: list[str]
    threads: list[str]
    memory: Allocations
    waits: Waits
    world: int | None = None
    rank_known: bool = True
    hardware: str = ""
    created: str = ""
    notes: list[str] = field(factory=list)
    facts: dict[str, int] = field(factory=dict)
    resolution: int = 1

    @property
    def ranks(self) -> list[int]:
        """The ranks in this trace."""
        return [int(one) for one in np.unique(self.slices.rank)]


def covered(union: tuple[Ints, Ints], until: Ints) -> Ints:
    """The nanoseconds of a union before each time."""
    starts, ends = union
    if not len(starts):
        return np.zeros(len(until), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    index = np.searchsorted(starts, until, side="right")
    inside = np.where(index > 0, np.maximum(ends[np.maximum(index - 1, 0)] - until, 0), 0)
    return np.asarray(before[index] - inside, dtype=np.int64)


def length_within(union: tuple[Ints, Ints], begin: int, finish: int) -> int:
    """The nanoseconds of a union between two times."""
    # Only the intervals of the window: a sum over all of them, for each window, would take time in the square.
    first = int(np.searchsorted(union[1], begin, side="right"))
    last = max(first, int(np.searchsorted(union[0], finish, side="left")))
    return int((np.minimum(union[1][first:last], finish) - np.maximum(union[0][first:last], begin)).sum())
