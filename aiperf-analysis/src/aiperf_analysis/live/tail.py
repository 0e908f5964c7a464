"""Reads the files of running runs: whole lines only, and nothing of a file that vanished."""

import json
import time
from pathlib import Path

from attrs import field, frozen

from aiperf_analysis.live.place import SUFFIX, live_folder, start_ticks

# Files of runs that ended stay for a while, so that a reader sees the end.
KEPT_S = 600.0
# A file of a run is a few hundred bytes a line, five lines a second at most; a longer read would be no such file.
_LONGEST_READ = 8 << 20


@frozen
class LiveRun:
    """A run and its newest state.

    name: of the run, unique on this machine.
    state: `running`, `finished`, or `died` for a run whose process ended without a last line.
    """

    name: str
    state: str
    newest: dict[str, object] = field(factory=dict)


def lines_after(path: Path, offset: int = 0) -> tuple[list[dict[str, object]], int]:
    """The whole lines of a file from a byte on, and the byte after them: where the next call continues.

    A half line is left for the next call. A file that is shorter than `offset` is read from its start; of a file that
    vanished there are no lines. A line that is no JSON object is left out.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            offset = offset if offset <= size else 0
            file.seek(offset)
            data = file.read(_LONGEST_READ)
    except OSError:
        return [], offset
    whole = data[: data.rfind(b"\n") + 1]
    return [line for text in whole.splitlines() if (line := _parsed(text)) is not None], offset + len(whole)


def _parsed(text: bytes) -> dict[str, object] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def live_runs() -> list[LiveRun]:
    """The runs that are going on or ended a short time ago, the newest first. Removes files that are too old."""
    paths = sorted(live_folder().glob(f"*{SUFFIX}"), key=_changed, reverse=True)
    return [run for path in paths if (run := _look(path)) is not None]


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _look(path: Path) -> LiveRun | None:
    lines, _ = lines_after(path)
    newest = lines[-1] if lines else {}
    pid, start = newest.get("pid"), newest.get("start")
    if newest.get("event") == "finished":
        state = "finished"
    elif isinstance(pid, int) and start is not None and start_ticks(pid) == start:
        state = "running"
    else:
        state = "died"
    if state != "running" and time.time() - _changed(path) > KEPT_S:
        path.unlink(missing_ok=True)
        return None
    return LiveRun(path.name.removesuffix(SUFFIX), state, newest) if newest else None
