"""Reads the files of running runs: whole lines only, and nothing of a file that vanished."""

import json
import os
import time
from pathlib import Path

from attrs import define, field, frozen

from aiperf_analysis.live.place import SUFFIX, UNFINISHED, live_folder, start_ticks

# Files of runs that ended stay for a while, so that a reader sees the end.
KEPT_S = 600.0
# A file of a run is bounded by its writer; a longer read would be no such file.
_LONGEST_READ = 8 << 20
# The number of bytes at the end of a file in which the newest line is searched first.
_LAST_BYTES = 1 << 16

Line = dict[str, object]


@frozen
class LiveRun:
    """A run and its newest state.

    name: of the run, unique on this machine.
    state: `running`, `finished`, or `died` for a run whose process ended without a last line.
    """

    name: str
    state: str
    newest: Line = field(factory=dict)


@define
class Tail:
    """Follows the file of a run. `read` returns each line once, also where the writer started the file anew.

    last: the id of the last line that was returned; -1 for none.
    """

    path: Path
    last: int = -1
    _inode: int = 0
    _offset: int = 0

    def read(self) -> list[Line]:
        """The whole lines that are new, at most 8 MiB of them. A half line is left for the next call.

        A line that is no JSON object, or has no number, is left out. Of a file that vanished there are no lines.
        """
        try:
            with self.path.open("rb") as file:
                inode, size = os.fstat(file.fileno()).st_ino, file.seek(0, 2)
                if inode != self._inode or size < self._offset:
                    self._inode, self._offset = inode, 0
                file.seek(self._offset)
                data = file.read(_LONGEST_READ)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        # Of a line that is longer than a read, nothing is kept.
        self._offset += len(whole) or (len(data) if len(data) == _LONGEST_READ else 0)
        return [line for text in whole.splitlines() if (line := _parsed(text)) is not None and self._is_new(line)]

    def _is_new(self, line: Line) -> bool:
        number = line.get("id")
        if not isinstance(number, int) or isinstance(number, bool) or number <= self.last:
            return False
        self.last = number
        return True


def newest_line(path: Path) -> Line:
    """The last whole line of a file; empty where there is none. Reads the end of the file."""
    for length in (_LAST_BYTES, _LONGEST_READ):
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - length))
                data = file.read(length)
        except OSError:
            return {}
        whole = data[: data.rfind(b"\n") + 1].splitlines()
        if size > length:  # the first line may be the end of a longer line
            whole = whole[1:]
        for text in reversed(whole):
            if (line := _parsed(text)) is not None:
                return line
        if size <= length:
            return {}
    return {}


def _parsed(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def live_runs() -> list[LiveRun]:
    """The runs that are going on or ended a short time ago, the newest first. Removes files that are too old."""
    paths = sorted(live_folder().glob(f"*{SUFFIX}"), key=_changed, reverse=True)
    return [run for path in paths if (run := _look(path)) is not None]


def live_run(name: str) -> LiveRun | None:
    """The run with a name; None where there is none. The name is compared, never used as a path."""
    return next((run for run in live_runs() if run.name == name), None)


def path_of(run: LiveRun) -> Path:
    """The file of a run."""
    return live_folder() / f"{run.name}{SUFFIX}"


def state_of(newest: Line) -> str:
    """`running`, `finished` or `died`, by the newest line and whether the process of the run lives."""
    pid, start = newest.get("pid"), newest.get("start")
    if newest.get("event") == "finished":
        return "finished"
    if isinstance(pid, int) and start is not None and start_ticks(pid) == start:
        return "running"
    return "died"


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _look(path: Path) -> LiveRun | None:
    newest = newest_line(path)
    state = state_of(newest)
    if state != "running" and time.time() - _changed(path) > KEPT_S:
        path.unlink(missing_ok=True)
        path.with_suffix(UNFINISHED).unlink(missing_ok=True)
        return None
    return LiveRun(path.name.removesuffix(SUFFIX), state, newest) if newest else None
