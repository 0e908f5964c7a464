"""nsys: Nsight Systems around the profiled process; kernels, copies, fills and the gaps between them on a time line.

It exports to SQLite.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs, timeline
from aiperf_core.profiling.nsys_tables import CALLS, RANGES, TEXTS, NsysTables, Work, opened
from aiperf_core.profiling.numbers import NONE
from aiperf_core.profiling.timeline import KERNEL_LAUNCHES, Call, Piece

REPORT = "profile.nsys-rep"
DATABASE = "profile.sqlite"
_METRICS = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")


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
            with closing(opened(path)) as database:
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
    tables = NsysTables(database, joined=True)
    ranges = [(start, end) for start, end, _, text in tables.ranges() if text == job.label]
    if not ranges:
        raise AiperfError(f"nsys recorded no NVTX range {job.label!r}. Profile again; --tool torch needs no NVTX.")
    found = [Call((end - start) / 1e9) for start, end in ranges]
    owner: dict[int, Call] = {}
    for at, _, _, launch, name in tables.calls():
        for call, (start, end) in zip(found, ranges, strict=True):
            if start <= at < end:
                owner[launch] = call
                call.launches += name.startswith(KERNEL_LAUNCHES)
    for work in tables.work(*_METRICS):
        if work.launch != NONE and work.launch in owner:
            owner[work.launch].pieces.append(_piece(work))
    unread = ", ".join(tables.unread_work() + tables.unread_like(TEXTS, CALLS, RANGES))
    left_out = tables.facts["damaged"] + tables.facts["backwards"]
    rows = f"{left_out:,} of {tables.facts['events']:,} rows"
    if 2 * left_out > tables.facts["events"]:
        raise AiperfError(
            f"most of what nsys recorded is damaged: {rows} have no times, or end before they begin. Profile again, or "
            f"use: --tool torch"
        )
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
        notes=[
            *([f"The tables {unread} of nsys are not read; work may be missing."] if unread else []),
            *([f"{rows} of nsys have no times, or end before they begin; they were left out."] if left_out else []),
        ],
    )


def _piece(work: Work) -> Piece:
    registers, static, dynamic = work.further
    metrics = {"registers": float(registers)} if isinstance(registers, int) else {}
    if isinstance(static, int) and isinstance(dynamic, int):
        metrics["shared_bytes"] = float(static + dynamic)
    return Piece(work.name, work.kind, work.start / 1e9, work.end / 1e9, bytes=float(work.bytes), metrics=metrics)
