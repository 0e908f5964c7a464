"""nsys: Nsight Systems around the profiled process; kernels, copies, fills and the gaps between them on a time line.

It exports to SQLite, with the tables of
https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference. Tables without rows are absent.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs, timeline
from aiperf_core.profiling.timeline import Call, Piece

REPORT = "profile.nsys-rep"
DATABASE = "profile.sqlite"
_KERNELS, _COPIES, _FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
_RUNTIME, _RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
# CUpti_ActivityMemcpyKind
_COPY_KINDS = {1: "host to device", 2: "device to host", 8: "device to device", 10: "GPU to GPU"}
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")


class Nsys(Tool):
    """Nsight Systems."""

    pace = Pace(10, 2.0)

    def unavailable(self) -> str | None:
        """The program or the GPU is missing, or metrics were asked for."""
        job = self.job
        return programs.without_metrics("nsys", job.metrics) or programs.missing_nsight("nsys", "Systems", job.device)

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """Nsys starts the process and records from cudaProfilerStart on."""
        return [
            [
                programs.find("nsys") or "nsys",
                "profile",
                "--trace=cuda,nvtx",
                "--sample=none",
                "--cpuctxsw=none",
                "--capture-range=cudaProfilerApi",
                "--capture-range-end=stop",
                "--cuda-graph-trace=node",
                "--export=sqlite",
                "--force-overwrite=true",
                f"--output={folder / Path(REPORT).stem}",
                *argv,
            ]
        ]

    def window(self, folder: Path) -> "NsysWindow":
        """Record all calls at once; the profiled process marks each by an NVTX range."""
        return NsysWindow()

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read the database that nsys exported."""
        path = folder / DATABASE
        if not path.is_file():
            raise programs.unreadable(path, "nsys")
        version = programs.version(programs.find("nsys") or "nsys")
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                return read(database, self.job, calls, version)
        except sqlite3.Error:
            raise programs.unreadable(path, "nsys") from None


class NsysWindow(Window):
    """Records from cudaProfilerStart to cudaProfilerStop."""

    def whole(self) -> AbstractContextManager[None]:
        """Record all calls."""
        return programs.cuda_range()


def read(database: sqlite3.Connection, job: Job, calls: int, version: str) -> Observed:
    """Read an export. Work belongs to the call within which the host launched it, by its correlation id.

    Raises `AiperfError` when the ranges of the calls are missing, and `sqlite3.Error` for another kind of database.
    """
    database.row_factory = sqlite3.Row
    names = {row["id"]: row["value"] for row in _rows(database, "StringIds")}
    ranges = [
        (row["start"], row["end"])
        for row in _rows(database, _RANGES)
        if _text(row, names) == job.label and row["end"] is not None
    ]
    if not ranges:
        raise AiperfError(f"nsys recorded no NVTX range {job.label!r}. Profile again; --tool torch needs no NVTX.")
    found = [Call((end - start) / 1e9) for start, end in ranges]
    owner: dict[int, Call] = {}
    for row in _rows(database, _RUNTIME):
        for call, (start, end) in zip(found, ranges, strict=True):
            if start <= row["start"] < end:
                owner[row["correlationId"]] = call
                call.launches += str(names.get(row["nameId"], "")).startswith(_LAUNCHES)
    for correlation, piece in _pieces(database, names):
        if correlation in owner:
            owner[correlation].pieces.append(piece)
    return Observed(
        version=version,
        hot=timeline.hot(found, calls),
        figures=timeline.figures(found, calls),
        missing={
            "operators": "nsys sees no operators of torch; --tool torch does",
            "occupancy and stalls": "nsys reads no counters; --tool ncu does",
        },
        files=[REPORT],
    )


def _pieces(database: sqlite3.Connection, names: dict[int, str]) -> Iterator[tuple[int, Piece]]:
    for row in _rows(database, _KERNELS):
        metrics = {
            "registers": float(row["registersPerThread"]),
            "shared_bytes": float(row["staticSharedMemory"] + row["dynamicSharedMemory"]),
        }
        name = names.get(row["demangledName"], "?")
        yield row["correlationId"], Piece(name, "kernel", *_seconds(row), metrics=metrics)
    for row in _rows(database, _COPIES):
        name = f"copy, {_COPY_KINDS.get(row['copyKind'], 'other')}"
        yield row["correlationId"], Piece(name, "copy", *_seconds(row), bytes=float(row["bytes"]))
    for row in _rows(database, _FILLS):
        yield row["correlationId"], Piece("fill", "fill", *_seconds(row), bytes=float(row["bytes"]))


def _seconds(row: sqlite3.Row) -> tuple[float, float]:
    return row["start"] / 1e9, row["end"] / 1e9


def _text(row: sqlite3.Row, names: dict[int, str]) -> Any:
    """The text of a range, from the row itself or from the table of strings."""
    return row["text"] if row["text"] is not None else names.get(row["textId"])


def _rows(database: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    """The rows of a table; none when the table is absent."""
    known = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if table not in known:
        return []
    return database.execute(f"SELECT * FROM {table}").fetchall()
