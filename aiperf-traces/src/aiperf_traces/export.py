"""Writes windows of traces as Chrome's JSON, for Perfetto's viewer (https://ui.perfetto.dev)."""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aiperf_core.errors import AiperfError, UsageError
from aiperf_traces.breakdown import launches_of
from aiperf_traces.model import NONE, Kind, Trace
from aiperf_traces.windows import Window

MOST_EVENTS = 2_000_000
# Kineto's, so that the file can be read again.
_CATEGORIES = {
    Kind.COMPUTE: "kernel",
    Kind.COMMUNICATION: "kernel",
    Kind.COPY: "gpu_memcpy",
    Kind.FILL: "gpu_memset",
    Kind.OPERATOR: "cpu_op",
    Kind.LAUNCH: "cuda_runtime",
    Kind.SYNC: "cuda_runtime",
    Kind.CALL: "cuda_runtime",
}


def check(path: Path) -> None:
    """Raise UsageError where the file cannot be meant."""
    if path.suffix.lower() != ".json":
        raise UsageError(
            f"'{path}' does not end in .json; --export writes a trace in JSON. Example: --export window.json"
        )
    if not path.parent.is_dir():
        raise UsageError(f"the folder '{path.parent}' does not exist. Make it, or choose another --export.")


def write(traces: Sequence[Trace], windows: Sequence[Window], offsets: dict[int, int], path: Path) -> int:
    """Write the slices that overlap with the windows; the file appears whole or not at all. Returns their number.

    offsets: nanoseconds by which the clock of a rank is ahead. Raises AiperfError where the file cannot be written.
    """
    first = min(window.start - offsets.get(window.rank, 0) for window in windows)
    hidden = path.with_name(f".{secrets.token_hex(8)}.tmp")
    count = 0
    try:
        with hidden.open("x", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
            for event in _events(traces, windows, offsets, first):
                file.write(("" if not count else ",\n") + json.dumps(event))
                count += 1
                if count > MOST_EVENTS:
                    raise AiperfError(
                        f"--export would write more than {MOST_EVENTS:,} events. Choose a shorter --window, such as "
                        f"the name of a step: 'ProfilerStep#3'"
                    )
            file.write("\n]}\n")
        os.replace(hidden, path)
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another --export.") from error
    finally:
        hidden.unlink(missing_ok=True)
    return count


def _events(
    traces: Sequence[Trace], windows: Sequence[Window], offsets: dict[int, int], first: int
) -> Iterator[dict[str, Any]]:
    for trace in traces:
        slices = trace.slices
        keep = np.zeros(len(slices), dtype=bool)
        for rank in trace.ranks:
            own = [window for window in windows if window.rank == rank]
            if own:
                # Windows of a rank do not overlap: a slice is in the last that starts before its end, or in none.
                starts, ends = (np.array([getattr(one, name) for one in own]) for name in ("start", "end"))
                place = np.searchsorted(starts, slices.end, side="left") - 1
                keep |= (slices.rank == rank) & (place >= 0) & (slices.start < ends[np.maximum(place, 0)])
        launch = launches_of(trace)
        for rank in trace.ranks:
            yield {"ph": "M", "name": "process_name", "pid": f"rank {rank}", "args": {"name": f"rank {rank}"}}
        for row in np.flatnonzero(keep).tolist():
            yield from _slice(trace, row, int(launch[row]), offsets, first)


def _slice(trace: Trace, row: int, launch: int, offsets: dict[int, int], first: int) -> Iterator[dict[str, Any]]:
    slices = trace.slices
    rank, kind = int(slices.rank[row]), Kind(int(slices.kind[row]))

    def at(time: Any) -> float:
        return (int(time) - offsets.get(rank, 0) - first) / 1000

    on_device = kind <= Kind.FILL
    lane = f"GPU {slices.device[row]} stream {slices.stream[row]}" if on_device else f"thread {_thread(trace, row)}"
    args: dict[str, Any] = {"bytes": int(slices.bytes[row])} if slices.bytes[row] else {}
    if slices.correlation[row] != NONE:
        args["correlation"] = int(slices.correlation[row])
    if on_device:
        args |= {"device": int(slices.device[row]), "stream": int(slices.stream[row])}
    if slices.group[row] != NONE:
        args["Process Group Name"] = trace.names[slices.group[row]]
    if slices.sequence[row] != NONE:
        args["Seq"] = int(slices.sequence[row])
    if kind is Kind.COMMUNICATION:
        args["Collective name"] = trace.names[slices.name[row]]
    yield {
        "ph": "X",
        "cat": _CATEGORIES.get(kind, "user_annotation"),
        "name": trace.names[slices.name[row]],
        "pid": f"rank {rank}",
        "tid": lane,
        "ts": at(slices.start[row]),
        "dur": int(slices.end[row] - slices.start[row]) / 1000,
        "args": args,
    }
    if on_device and launch != NONE:
        flow = {"cat": "launch", "name": "launch", "id": f"{rank}.{slices.correlation[row]}", "pid": f"rank {rank}"}
        yield {**flow, "ph": "s", "tid": f"thread {_thread(trace, launch)}", "ts": at(slices.start[launch])}
        yield {**flow, "ph": "f", "bp": "e", "tid": lane, "ts": at(slices.start[row])}


def _thread(trace: Trace, row: int) -> str:
    thread = int(trace.slices.thread[row])
    return trace.threads[thread] if thread != NONE else "unknown"
