"""Reads tables of the SQLite databases that Nsight Systems exports (`nsys export --type sqlite`).

Schema: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference. Tables without rows are
absent, columns differ between versions, and names may end in a version, as in `NVTX_EVENTS_V2`.
"""

import re
import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

_AT_ONCE = 10_000  # rows
_WORK = re.compile(r"CUPTI_ACTIVITY_KIND_.*(KERNEL|MEMCPY|MEMSET|GRAPH_TRACE)", re.IGNORECASE)
_WORK_COLUMNS, _NO_WORK = {"start", "end", "streamId"}, "syncType"


class NsysTables:
    """The tables of a database."""

    def __init__(self, database: sqlite3.Connection) -> None:
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
            wanted = ", ".join(f'"{one}"' if one in self._columns[name] else "NULL" for one in columns)
            queries.append(f'SELECT {wanted} FROM "{name}"')
        if not queries:
            return
        cursor = self._database.execute(" UNION ".join(queries))
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows

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
