"""Reads the SQLite databases that Nsight Systems exports (`nsys export --type sqlite`). Times are nanoseconds."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.profiling.nsys_tables import NsysTables
from aiperf_traces.building import RANK_IN_NAME, STEP, Builder, call_kind, is_communication
from aiperf_traces.model import NONE, Kind, Trace

_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}  # CUpti_ActivityMemcpyKind
_STREAM_WAIT = 2
_PREFIX = "CUPTI_ACTIVITY_KIND_"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_OTHERS = (f"{_PREFIX}RUNTIME", f"{_PREFIX}SYNCHRONIZATION", "NVTX_EVENTS", "StringIds", _MEMORY)  # beside work
_KERNEL_LAUNCH = re.compile(r"cu(?:da)?(?:Graph)?Launch")
_MOST_TIME = 1 << 62


def read(path: Path, rank: int | None = None) -> Trace:
    """Read a database. Raises AiperfError where it is damaged or has no table of a trace."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.text_factory = lambda data: data.decode(errors="replace")
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
        self._processes: dict[int, int] = {}
        self._texts: dict[int, str] = {}

    def read(self, path: Path, rank: int | None) -> Trace:
        """Read all tables."""
        known = [f"{_PREFIX}{one}" for one in ("GRAPH_TRACE", "KERNEL", "MEMCPY", "MEMSET", "RUNTIME")]
        if not any(map(self.tables.versions, [*known, "NVTX_EVENTS"])) and not self.tables.unread_work():
            raise AiperfError(
                f"'{path}' is a database without the tables of a trace ({', '.join(known)}, NVTX_EVENTS). Export a "
                f"report that was recorded with nsys profile --trace=cuda,nvtx."
            )
        for number, text in self.tables.rows("StringIds", ("id", "value"), needed=("id", "value")):
            if isinstance(number, int) and isinstance(text, str):
                self._texts[number] = text
        self._work()
        self._host()
        self._memory()
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
                f"'{path}' has no kernels in a table that is known ({_PREFIX}KERNEL), and work of a GPU in tables that "
                f"are not read: {words(', '.join(unread))}. Export it with another version of nsys."
            )
        facts = self.builder.facts
        if 2 * facts.get("damaged", 0) > facts.get("events", 0):
            raise AiperfError(
                f"most of '{path}' is damaged: {facts['damaged']:,} of {facts['events']:,} rows have no times. Export "
                f"again: nsys export --type sqlite REPORT.nsys-rep"
            )
        notes = []
        if unread := unread + self.tables.unread_like(*_OTHERS):
            notes.append(
                f"'{path}' has tables that are not read: {words(', '.join(unread))}. Figures are without them."
            )
        if self.launches and not self.kernels:
            notes.append(
                f"'{path}' has {self.launches:,} launches of kernels and no table of kernels ({_PREFIX}KERNEL); no "
                f"compute is in its figures. Record with nsys profile --trace=cuda,nvtx."
            )
        if self.nameless:
            notes.append(
                f"'{path}' names {self.kernels - self.nameless:,} of {self.kernels:,} kernels (table StringIds); the "
                f"others count as compute, also where they communicate."
            )
        return notes

    def _whole(self, value: Any, otherwise: int = NONE) -> int:
        return value if isinstance(value, int) else otherwise

    def _correlation(self, value: Any, process: Any) -> int:
        """The correlation, unlike in all processes: ids repeat from one to the next. `process`: a global id."""
        if not isinstance(value, int) or not 0 < value < 1 << 40:
            return NONE
        number = self._processes.setdefault(self._whole(process, 0) >> 24, len(self._processes))
        return value | number << 40

    def _add(self, start: Any, end: Any, kind: Kind, name: str, **columns: int) -> None:
        builder = self.builder
        builder.count("events")
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < _MOST_TIME or end > _MOST_TIME:
            builder.count("damaged")
            return
        if end < start:
            builder.count("backwards")
            return
        get = columns.get
        number = builder.names.number(name)
        builder.rows.append(
            (start, end, kind, number, get("stream", NONE), get("device", NONE), get("thread", NONE),
             get("correlation", NONE), get("bytes", 0), NONE, NONE)
        )  # fmt: skip
        builder.settle()

    def _work(self) -> None:
        common = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
        for *where, name in self.tables.rows(f"{_PREFIX}KERNEL", (*common, "demangledName")):
            text = self._texts.get(name, "(kernel without a name)")
            self.kernels += 1
            self.nameless += name not in self._texts
            self._device(where, Kind.COMMUNICATION if is_communication(text) else Kind.COMPUTE, text)
        for *where, graph in self.tables.rows(f"{_PREFIX}GRAPH_TRACE", (*common, "graphId")):
            self.kernels += 1
            self._device(where, Kind.COMPUTE, f"CUDA graph {graph}, as a whole")
        for *where, size, kind in self.tables.rows(f"{_PREFIX}MEMCPY", (*common, "bytes", "copyKind")):
            self._device(where, Kind.COPY, f"Memcpy {_COPY_KINDS.get(kind, 'other')}", size)
        for *where, size in self.tables.rows(f"{_PREFIX}MEMSET", (*common, "bytes")):
            self._device(where, Kind.FILL, "Memset", size)

    def _device(self, where: list[Any], kind: Kind, name: str, size: Any = 0) -> None:
        start, end, device, stream, correlation, process = where
        self._add(
            start,
            end,
            kind,
            name,
            device=self._whole(device),
            stream=self._whole(stream),
            correlation=self._correlation(correlation, process),
            bytes=self._whole(size, 0),
        )

    def _host(self) -> None:
        threads = self.builder.threads
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, correlation, name in self.tables.rows(f"{_PREFIX}RUNTIME", columns):
            text = self._texts.get(name, "(call without a name)")
            text = re.sub(r"_v\d+$", "", text)
            self.launches += _KERNEL_LAUNCH.match(text) is not None
            number = threads.number(str(thread))
            joined = self._correlation(correlation, thread)
            self._add(start, end, call_kind(text), text, thread=number, correlation=joined)
        ranges = ("start", "end", "text", "textId", "globalTid")
        for start, end, text, name, thread in self.tables.rows("NVTX_EVENTS", ranges):
            shown = text if isinstance(text, str) else self._texts.get(name)
            if shown is not None and end is not None:
                kind = Kind.STEP if STEP.fullmatch(shown) else Kind.RANGE
                self._add(start, end, kind, shown, thread=threads.number(str(thread)))
        waits = ("correlationId", "globalPid", "streamId", "syncType")
        for correlation, process, stream, kind in self.tables.rows(
            f"{_PREFIX}SYNCHRONIZATION", waits, needed=waits[:1]
        ):
            # The record of a wait for an event does not say which call recorded the event.
            joined = self._correlation(correlation, process)
            if kind != _STREAM_WAIT:
                self.builder.waits.append((joined, self._whole(stream), NONE, NONE))

    def _memory(self) -> None:
        columns = ("start", "bytes", "memoryOperationType", "address", "deviceId")
        rows = self.tables.rows(_MEMORY, columns, needed=columns[:3])
        for start, size, operation, address, device in rows:
            if isinstance(start, int) and isinstance(size, int) and operation in (0, 1):
                signed = size if operation == 0 else -size
                where = self._whole(address), NONE, self._whole(device, 0), NONE, NONE
                self.builder.memory.append((start, signed, *where))
