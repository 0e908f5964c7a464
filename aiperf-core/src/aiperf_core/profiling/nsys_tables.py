"""Reads tables of the SQLite databases that Nsight Systems exports (`nsys export --type sqlite`).

Schema: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference. Tables without rows are
absent, columns differ between versions, and names may end in a version, as in `NVTX_EVENTS_V2`. SQLite keeps any value
in any column.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from aiperf_core.profiling.numbers import NONE, whole

PREFIX = "CUPTI_ACTIVITY_KIND_"
KERNELS, GRAPHS, COPIES, FILLS, CALLS = (
    f"{PREFIX}{kind}" for kind in ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "RUNTIME")
)
RANGES, TEXTS = "NVTX_EVENTS", "StringIds"
NAMELESS = "(kernel without a name)"
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}  # CUpti_ActivityMemcpyKind
_MOST_TIME = 1 << 62  # nanoseconds
_AT_ONCE = 10_000  # rows
_WORK = re.compile(rf"{PREFIX}.*(KERNEL|MEMCPY|MEMSET|GRAPH_TRACE)", re.IGNORECASE)
_WORK_COLUMNS, _NO_WORK = {"start", "end", "streamId"}, "syncType"


def opened(path: Path) -> sqlite3.Connection:
    """A database to read from, whatever its schema and its texts hold."""
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    database.execute("PRAGMA trusted_schema = OFF")
    database.text_factory = lambda data: data.decode(errors="replace")
    return database


class Work(NamedTuple):
    """A kernel (or a graph as a whole), a copy or a fill, by its kind. Times are nanoseconds, missing numbers are NONE.

    launch: the number that joins it with the call that launched it.
    further: the values of further columns.
    """

    kind: str
    name: str
    start: int
    end: int
    launch: int
    device: int
    stream: int
    bytes: int
    further: Sequence[Any]


class NsysTables:
    """The tables of a database.

    joined: leave a table unread that lacks the ids by which work and calls belong together, or the bytes of copies.
    facts: counts of the rows so far: `events`, and of those that are left out `damaged` (no times) and `backwards`.
    """

    def __init__(self, database: sqlite3.Connection, *, joined: bool = False) -> None:
        self.facts: Counter[str] = Counter()
        self._needed = ("start", "end", "correlationId") if joined else ("start", "end")
        self._moved = (*self._needed, "bytes") if joined else self._needed
        self._processes: dict[int, int] = {}
        self._database = database
        self._columns: dict[str, set[str]] = {}
        self._read: set[str] = set()
        query = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
        for table, column in database.execute(query):
            self._columns.setdefault(table, set()).add(column)

    def versions(self, table: str) -> list[str]:
        """The names that a table has here: its own, and that with a version."""
        pattern = re.compile(rf"{table}(_?V?\d+)?", re.IGNORECASE)
        return [name for name in self._columns if pattern.fullmatch(name)]

    def rows(self, table: str, columns: Collection[str], needed: Collection[str] = ("start", "end")) -> Iterator[Any]:
        """The rows of a table in all its versions, as tuples of these columns; what is in two versions comes once.

        A column that a version lacks is NULL. A version that lacks one of `needed` is not read.
        """
        readable = [name for name in self.versions(table) if self._columns[name].issuperset(needed)]
        self._read.update(readable)
        queries = []
        for name in readable:
            wanted = ", ".join(f'"{column}"' if column in self._columns[name] else "NULL" for column in columns)
            queries.append(f'SELECT {wanted} FROM "{name}"')
        if not queries:
            return
        cursor = self._database.execute(" UNION ".join(queries))
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows

    @cached_property
    def _texts(self) -> dict[int, str]:
        rows = self.rows(TEXTS, ("id", "value"), needed=("id", "value"))
        return {number: text for number, text in rows if isinstance(number, int) and isinstance(text, str)}

    def work(self, *further: str) -> Iterator[Work]:
        """The work of devices. `further`: columns to read beside the usual ones."""
        texts = self._texts
        for table, kind, column, needed, name_of in (
            (KERNELS, "kernel", "demangledName", self._needed, lambda number: texts.get(number, NAMELESS)),
            (GRAPHS, "kernel", "graphId", self._needed, "CUDA graph {}, as a whole".format),
            (COPIES, "copy", "copyKind", self._moved, lambda number: f"Memcpy {_COPY_KINDS.get(number, 'other')}"),
            (FILLS, "fill", "bytes", self._moved, lambda _: "Memset"),
        ):
            columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", column, "bytes", *further)
            rows = self.rows(table, columns, needed)
            for start, end, device, stream, correlation, process, value, size, *more in rows:
                if self._is_slice(start, end):
                    launch, place = self.launch(correlation, process), (whole(device), whole(stream))
                    yield Work(kind, name_of(value), start, end, launch, *place, whole(size, 0), more)

    def calls(self) -> Iterator[tuple[int, int, Any, int, str]]:
        """The calls of the runtime: start, end, thread, the number that joins it with its work, and name."""
        texts, columns = self._texts, ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, correlation, name in self.rows(CALLS, columns, self._needed):
            if self._is_slice(start, end):
                text = re.sub(r"_v\d+$", "", texts.get(name, "(call without a name)"))
                yield start, end, thread, self.launch(correlation, thread), text

    def ranges(self) -> Iterator[tuple[int, int, Any, str]]:
        """The NVTX ranges with an end: start, end, thread and text."""
        texts, columns = self._texts, ("start", "end", "text", "textId", "globalTid")
        for start, end, own, number, thread in self.rows(RANGES, columns):
            text = own if isinstance(own, str) else texts.get(number)
            if text is not None and end is not None and self._is_slice(start, end):
                yield start, end, thread, text

    def launch(self, correlation: Any, process: Any) -> int:
        """A number for a correlation id, which repeats from process to process.

        process: a global id of a process, or of a thread of it.
        """
        if not isinstance(correlation, int) or not 0 < correlation < 1 << 40:
            return NONE
        number = process >> 24 if isinstance(process, int) else 0
        return correlation | self._processes.setdefault(number, len(self._processes)) << 40

    def _is_slice(self, start: Any, end: Any) -> bool:
        """Count a row, and tell one with times from one that is left out."""
        self.facts["events"] += 1
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < _MOST_TIME or end > _MOST_TIME:
            self.facts["damaged"] += 1
        elif end < start:
            self.facts["backwards"] += 1
        else:
            return True
        return False

    def unread_work(self) -> list[str]:
        """Tables with rows that look like work of a GPU, by their name or columns, and were not read."""
        return [
            name
            for name, columns in self._columns.items()
            if name not in self._read
            and (_WORK.match(name) or (columns >= _WORK_COLUMNS and _NO_WORK not in columns))
            and self._has_rows(name)
        ]

    def unread_like(self, *tables: str) -> list[str]:
        """Tables with rows whose names begin as these do, and that were not read."""
        begins = tuple(table.lower() for table in tables)
        names = [name for name in self._columns if name.lower().startswith(begins)]
        return [name for name in names if name not in self._read and self._has_rows(name)]

    def _has_rows(self, name: str) -> bool:
        quoted = name.replace('"', '""')
        return self._database.execute(f'SELECT 1 FROM "{quoted}" LIMIT 1').fetchone() is not None
