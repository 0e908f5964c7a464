"""Reads traces: finds out what a path is, and gives each trace its rank."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from attrs import evolve

from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.profiling import store
from aiperf_core.profiling.nsys import REPORT
from aiperf_core.profiling.torch_tool import TRACE
from aiperf_traces import kineto, nsys
from aiperf_traces.model import Trace

MOST_BYTES = 20_000_000_000
_DATABASE = b"SQLite format 3\0"


def read(paths: Sequence[Path], most_bytes: int = MOST_BYTES) -> list[Trace]:
    """Read traces, a file for each rank; the result is in the order of the ranks.

    A path is a trace in JSON (also .gz), a database of nsys, or the folder of a profile that `aiperf profile` left.
    Raises UsageError where two traces are of one rank, and AiperfError where a file cannot be read.
    """
    traces = [_one(path, most_bytes, index) for index, path in enumerate(paths)]
    if len(traces) == 1:
        return traces
    if not all(trace.rank_known for trace in traces):
        note = "Not all traces say their rank, so ranks are the order of the files."
        traces = [_with_rank(trace, index) for index, trace in enumerate(traces)]
        traces[0] = evolve(traces[0], notes=[*traces[0].notes, note])
    path_of: dict[int, str] = {}
    for trace in traces:
        for rank in trace.ranks:
            if rank in path_of:
                raise UsageError(
                    f"'{path_of[rank]}' and '{trace.path}' are both of rank {rank}. Give one trace of each rank. To "
                    f"compare two traces of a rank: aiperf analyze trace-diff A B"
                )
            path_of[rank] = trace.path
    return sorted(traces, key=lambda trace: trace.ranks)


def _with_rank(trace: Trace, rank: int) -> Trace:
    trace.slices.rank[:] = rank
    return trace


def _one(path: Path, most_bytes: int, rank: int) -> Trace:
    file = _file_of(path)
    try:
        with file.open("rb") as opened:
            head = opened.read(16)
        created = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
        if not head:
            raise AiperfError(f"'{file}' is empty. Record the trace again.")
        if head != _DATABASE and file.suffix == ".nsys-rep":
            raise UsageError(f"'{file}' is a report of nsys; export it first: nsys export --type sqlite '{file.name}'")
        trace = nsys.read(file, rank) if head == _DATABASE else kineto.read(file, most_bytes, rank)
    except OSError as error:
        raise AiperfError(f"cannot read '{file}': {error.strerror or error}.") from error
    if not len(trace.slices) and not len(trace.memory.time):
        raise AiperfError(
            f"'{file}' has no work of a GPU, no calls, operators or ranges of the host and no events of memory; none "
            f"of its {trace.facts.get('events', 0):,} events can be analysed. Record again with torch.profiler or nsys."
        )
    return evolve(trace, created=created)


def _file_of(path: Path) -> Path:
    """The file of a trace: the path itself, or the one in the folder of a profile."""
    if not path.exists():
        raise UsageError(
            f"'{path}' does not exist. Give files of traces (.json, .json.gz, .sqlite) or folders of profiles."
        )
    if not path.is_dir():
        return path
    if not (path / store.PAGE).is_file():
        raise UsageError(
            f"'{path}' is a folder without {store.PAGE}. Give files of traces, or the folder of one profile of "
            f"aiperf profile --tool torch or --tool nsys."
        )
    profile = store.read(path)
    if profile.tool == "nsys":
        raise UsageError(
            f"'{path}' holds a report of nsys; export it first: nsys export --type sqlite --output trace.sqlite "
            f"'{path / REPORT}'"
        )
    if TRACE not in {one.name for one in profile.artifacts}:
        raise UsageError(
            f"'{path}' is a profile of '{profile.tool}' without a time line. Profile again with --tool torch."
        )
    changed = list(store.damaged(path, profile))
    if TRACE in changed:
        raise BundleError(f"'{path / TRACE}' is missing or was changed since the profile was made. Profile again.")
    return path / TRACE
