"""nsys: Nsight Systems around the profiled process; kernels, copies, fills and the gaps between them on a time line.

It exports to SQLite.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs, timeline
from aiperf_core.profiling.nsys_tables import NsysTables
from aiperf_core.profiling.timeline import Call, Piece

REPORT = "profile.nsys-rep"
DATABASE = "profile.sqlite"
_KERNELS, _COPIES, _FILLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
_RUNTIME, _RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_JOINED = ("start", "end", "correlationId")
_MOVED = (*_JOINED, "bytes")
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

    Raises `AiperfError` when the ranges of the calls or all work is missing, and `sqlite3.Error` for another kind of
    database.
    """
    tables = NsysTables(database)
    names = dict(tables.rows("StringIds", ("id", "value"), needed=("id", "value")))
    ranges = [
        (start, end)
        for start, end, text, number in tables.rows(_RANGES, ("start", "end", "text", "textId"))
        if (names.get(number) if text is None else text) == job.label and end is not None
    ]
    if not ranges:
        raise AiperfError(f"nsys recorded no NVTX range {job.label!r}. Profile again; --tool torch needs no NVTX.")
    found = [Call((end - start) / 1e9) for start, end in ranges]
    owner: dict[int, Call] = {}
    for at, correlation, number in tables.rows(_RUNTIME, ("start", "correlationId", "nameId"), _JOINED):
        for call, (start, end) in zip(found, ranges, strict=True):
            if start <= at < end:
                owner[correlation] = call
                call.launches += str(names.get(number, "")).startswith(_LAUNCHES)
    for correlation, piece in _pieces(tables, names):
        if correlation in owner:
            owner[correlation].pieces.append(piece)
    unread = ", ".join(tables.unread_work() + tables.unread_like("StringIds", _RUNTIME, _RANGES))
    kinds = {piece.kind for call in found for piece in call.pieces}
    if "kernel" not in kinds and (unread or not kinds or any(call.launches for call in found)):
        why = f"; its tables {unread} are not read" if unread else ""
        raise AiperfError(f"nsys recorded no kernels of the calls{why}. Use: --tool torch")
    return Observed(
        version=version,
        hot=timeline.hot(found, calls),
        figures=timeline.figures(found, calls),
        missing={
            "operators": "nsys sees no operators of torch; --tool torch does",
            "occupancy and stalls": "nsys reads no counters; --tool ncu does",
        },
        files=[REPORT],
        notes=[f"The tables {unread} of nsys are not read; work may be missing."] if unread else [],
    )


def _pieces(tables: NsysTables, names: dict[int, str]) -> Iterator[tuple[int, Piece]]:
    columns = (*_JOINED, "demangledName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
    for start, end, correlation, number, registers, static, dynamic in tables.rows(_KERNELS, columns, _JOINED):
        metrics = {} if registers is None else {"registers": float(registers)}
        if static is not None and dynamic is not None:
            metrics["shared_bytes"] = float(static + dynamic)
        yield correlation, Piece(names.get(number, "?"), "kernel", start / 1e9, end / 1e9, metrics=metrics)
    for start, end, correlation, size, kind in tables.rows(_COPIES, (*_JOINED, "bytes", "copyKind"), _MOVED):
        name = f"copy, {_COPY_KINDS.get(kind, 'other')}"
        yield correlation, Piece(name, "copy", start / 1e9, end / 1e9, bytes=float(size))
    for start, end, correlation, size in tables.rows(_FILLS, _MOVED, _MOVED):
        yield correlation, Piece("fill", "fill", start / 1e9, end / 1e9, bytes=float(size))
