"""nsys: Nsight Systems around the profiled process; kernels, copies, fills and the gaps between them on a time line.

Read from its export to SQLite, whose tables are described in
https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference. A table without rows is not there at all.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job, Observed, Pace
from aiperf_core.profiling import programs, timeline
from aiperf_core.profiling.timeline import Call, Piece

REPORT = "profile.nsys-rep"
DATABASE = "profile.sqlite"
_KERNELS, _COPIES, _FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
_RUNTIME, _RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
# CUpti_ActivityMemcpyKind
_COPY_KINDS = {1: "host to device", 2: "device to host", 8: "device to device", 10: "GPU to GPU"}
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")


class Nsys:
    """See `profiling.profiler.Tool`."""

    pace = Pace(10, 2.0)

    def __init__(self, job: Job) -> None:
        self._job = job

    def unavailable(self) -> str | None:
        """Where the program or the GPU is missing."""
        if self._job.metrics:
            return "nsys has no metrics to choose from; leave out --metrics, or choose a tool that has: --tool ncu"
        if programs.find("nsys") is None:
            return (
                "nsys is not installed (looked on PATH, in /usr/local/cuda and /opt/nvidia); "
                "install Nsight Systems from https://developer.nvidia.com/nsight-systems, or use --tool torch"
            )
        return programs.missing_gpu(self._job.device, "nsys")

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """Nsys starts the process; nothing is recorded before cudaProfilerStart."""
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
        """Record all calls at once; their ranges are NVTX ranges, made by the subject."""
        return NsysWindow()

    def remedy(self, log: str) -> str | None:
        """Nothing that nsys prints has a remedy of ours."""
        return None

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read the database that nsys exported."""
        path = folder / DATABASE
        if not path.is_file():
            raise programs.unreadable(path, "nsys")
        version = programs.version(programs.find("nsys") or "nsys")
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                return read(database, self._job, calls, version)
        except sqlite3.Error:
            raise programs.unreadable(path, "nsys") from None


class NsysWindow:
    """Between cudaProfilerStart and cudaProfilerStop."""

    def whole(self) -> AbstractContextManager[None]:
        """Record."""
        return programs.cuda_range()

    def call(self) -> AbstractContextManager[None]:
        """Nothing more around one call."""
        return nullcontext()


def read(database: sqlite3.Connection, job: Job, calls: int, version: str) -> Observed:
    """What an export says. Work belongs to the call within which the host launched it, by its correlation.

    Raises `AiperfError` where the ranges of the calls are missing, and `sqlite3.Error` for a database of another kind.
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
    """The text of a range, which is in the row itself or among the strings."""
    return row["text"] if row["text"] is not None else names.get(row["textId"])


def _rows(database: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    """The rows of a table by time; none where the table is not there."""
    known = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if table not in known:
        return []
    return database.execute(f"SELECT * FROM {table}").fetchall()
