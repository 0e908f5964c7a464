"""Reads the SQLite databases that Nsight Systems exports (`nsys export --type sqlite`). Times are nanoseconds."""

import sqlite3
from contextlib import closing
from pathlib import Path

from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.profiling.nsys_tables import (
    CALLS,
    COPIES,
    FILLS,
    GRAPHS,
    KERNELS,
    NAMELESS,
    PREFIX,
    RANGES,
    TEXTS,
    NsysTables,
    opened,
)
from aiperf_core.profiling.numbers import whole
from aiperf_core.profiling.timeline import KERNEL_LAUNCHES
from aiperf_traces.building import RANK_IN_NAME, STEP, WORK_KINDS, Builder, call_kind, is_communication
from aiperf_traces.model import NONE, Kind, Trace

_STREAM_WAIT = 2
_WAITS, _MEMORY = f"{PREFIX}SYNCHRONIZATION", "CUDA_GPU_MEMORY_USAGE_EVENTS"
_OTHERS = (CALLS, _WAITS, RANGES, TEXTS, _MEMORY)  # beside work


def read(path: Path, rank: int | None = None) -> Trace:
    """Read a database. Raises AiperfError where it is damaged or has no table of a trace."""
    try:
        with closing(opened(path)) as database:
            return _Reader(database).read(path, rank)
    except (sqlite3.Error, OverflowError) as error:
        raise AiperfError(
            f"'{path}' cannot be read as a database of nsys ({words(str(error))}). Export again: "
            f"nsys export --type sqlite REPORT.nsys-rep"
        ) from None


class _Reader:
    def __init__(self, database: sqlite3.Connection) -> None:
        self.tables = NsysTables(database)
        self.builder = Builder()
        self.kernels = self.nameless = self.launches = 0

    def read(self, path: Path, rank: int | None) -> Trace:
        """Read all tables."""
        known = (GRAPHS, KERNELS, COPIES, FILLS, CALLS, RANGES)
        if not any(map(self.tables.versions, known)) and not self.tables.unread_work():
            raise AiperfError(
                f"'{path}' is a database without the tables of a trace ({', '.join(known)}). Export a report that was "
                f"recorded with nsys profile --trace=cuda,nvtx."
            )
        self._work()
        self._host()
        self._memory()
        self.builder.facts.update(self.tables.facts)
        named = RANK_IN_NAME.search(path.name)
        hardware = [str(name) for (name,) in self.tables.rows("TARGET_INFO_GPU", ("name",), needed=("name",)) if name]
        return self.builder.finish(
            rank=int(named[1]) if named else (rank or 0),
            rank_known=named is not None,
            path=str(path),
            tool="nsys",
            hardware=", ".join(dict.fromkeys(hardware)) or "no GPU named",
            notes=self._notes(path),
        )

    def _notes(self, path: Path) -> list[str]:
        """The notes of what is missing. Raises AiperfError where that is all kernels, or most rows."""
        unread = self.tables.unread_work()
        if unread and not self.kernels:
            raise AiperfError(
                f"'{path}' has no kernels in a table that is known ({KERNELS}), and work of a GPU in tables that "
                f"are not read: {words(', '.join(unread))}. Export it with another version of nsys."
            )
        facts = self.tables.facts
        if 2 * facts["damaged"] > facts["events"]:
            raise AiperfError(
                f"most of '{path}' is damaged: {facts['damaged']:,} of {facts['events']:,} rows have no times. Export "
                f"again: nsys export --type sqlite REPORT.nsys-rep"
            )
        notes = []
        if unread := unread + self.tables.unread_like(*_OTHERS):
            notes.append(
                f"'{path}' has tables that are not read: {words(', '.join(unread))}. Figures are without them."
            )
        if self.launches and not any(map(self.tables.versions, (KERNELS, GRAPHS))):
            notes.append(
                f"'{path}' has {self.launches:,} launches of kernels and no table of kernels ({KERNELS}); no "
                f"compute is in its figures. Record with nsys profile --trace=cuda,nvtx."
            )
        if self.nameless:
            named = f"{self.kernels - self.nameless:,} of {self.kernels:,} kernels (table {TEXTS})"
            notes.append(f"'{path}' names {named}; the others count as compute, also where they communicate.")
        return notes

    def _work(self) -> None:
        for work in self.tables.work():
            kind = WORK_KINDS[work.kind]
            if work.kind == "kernel":
                self.kernels += 1
                self.nameless += work.name == NAMELESS
                kind = Kind.COMMUNICATION if is_communication(work.name) else kind
            place = {"device": work.device, "stream": work.stream, "correlation": work.launch, "size": work.bytes}
            self.builder.add(work.start, work.end, kind, self.builder.names.number(work.name), **place)

    def _host(self) -> None:
        builder = self.builder
        for start, end, thread, launch, name in self.tables.calls():
            self.launches += name.startswith(KERNEL_LAUNCHES)
            number, place = builder.names.number(name), builder.threads.number(str(thread))
            builder.add(start, end, call_kind(name), number, thread=place, correlation=launch)
        for start, end, thread, text in self.tables.ranges():
            kind = Kind.STEP if STEP.fullmatch(text) else Kind.RANGE
            builder.add(start, end, kind, builder.names.number(text), thread=builder.threads.number(str(thread)))
        columns = ("correlationId", "globalPid", "streamId", "syncType")
        for correlation, process, stream, kind in self.tables.rows(_WAITS, columns, needed=columns[:1]):
            # The record of a wait for an event does not say which call recorded the event.
            joined = self.tables.launch(correlation, process)
            if kind != _STREAM_WAIT:
                builder.waits.append((joined, whole(stream), NONE, NONE))

    def _memory(self) -> None:
        columns = ("start", "bytes", "memoryOperationType", "address", "deviceId")
        rows = self.tables.rows(_MEMORY, columns, needed=columns[:3])
        for start, size, operation, address, device in rows:
            if isinstance(start, int) and isinstance(size, int) and operation in (0, 1):
                signed = size if operation == 0 else -size
                where = whole(address), NONE, whole(device, 0), NONE, NONE
                self.builder.memory.append((start, signed, *where))
