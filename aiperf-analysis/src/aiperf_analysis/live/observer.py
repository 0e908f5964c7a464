"""Writes the state of a run to a file of JSON lines, one file a run, which the reader in `tail` follows.

A file that cannot be created or written ends the writing, never the run.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import fields

from aiperf_analysis.live.place import SUFFIX, UNFINISHED, live_folder, start_ticks
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted

# At most five lines a second.
LEAST_BETWEEN_S = 0.2
# A file that grew by so much starts anew with a line that sums up what was before: some thousand lines.
MOST_BYTES = 1 << 20
# Kept for that line: the last targets that finished, and intervals of the target that is measured.
MOST_FINISHED, MOST_INTERVALS = 500, 200
# What a change of phase leaves as it was: the report of a phase may come without an estimate.
_ESTIMATES = frozenset(one.name for one in fields(Progress)) - {"target", "phase", "implementation"}


class LiveObserver:
    """The observer. Each line holds the whole state; a line that comes too soon is left out.

    A target that finished is named in the next line that is written, so that no end of a target is lost.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file: int | None = None
        self._path = Path()
        self._written = 0.0
        self._number = self._size = 0
        self._state: dict[str, object] = {}
        self._new: list[Mapping[str, object]] = []
        self._finished: list[Mapping[str, object]] = []
        self._course: list[list[object]] = []

    def run_started(self, run: RunStarted) -> None:
        """Create the file."""
        self._close()
        pid = os.getpid()
        self._number, self._new, self._finished, self._course = 0, [], [], []
        self._state = {"pid": pid, "start": start_ticks(pid), "bundle": run.bundle, "device": run.device}
        self._state |= {"total": len(run.targets)}
        self._path = live_folder() / f"{pid}-{time.time_ns():x}{SUFFIX}"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open(self._path)
        except OSError:
            return
        self._write("started", at_once=True)

    def target_started(self, target: TargetStarted) -> None:
        """A target starts: what is known of the last target is dropped."""
        self._course = []
        self._state |= {"target": target.name, "index": target.index, "total": target.total}
        self._state |= dict.fromkeys(("phase", "implementation", *_ESTIMATES))
        self._write("running")

    def progress(self, progress: Progress) -> None:
        """The state changed. The last known estimate stays where a change of phase brings none."""
        self._state |= {"phase": progress.phase, "implementation": progress.implementation}
        if progress.seconds_left is not None:
            self._state |= {name: getattr(progress, name) for name in _ESTIMATES}
            self._note_interval(progress)
        self._write("running")

    def _note_interval(self, progress: Progress) -> None:
        """Keep the course of the interval; of a long course every second point."""
        if progress.interval is None:
            return
        point: list[object] = [progress.undecided, progress.block, *progress.interval]
        if not self._course or self._course[-1] != point:
            self._course.append(point)
        if len(self._course) > MOST_INTERVALS:
            self._course = self._course[:-1:2] + self._course[-1:]

    def target_finished(self, result: TargetFinished) -> None:
        """A target is done."""
        self._new.append({"target": result.name, "verdicts": dict(result.verdicts), "path": result.path})
        self._write("running")

    def run_finished(self, bundle: RunFinished) -> None:
        """Write the last line, and close the file."""
        self._state |= {"bundle": bundle.path, "exit_code": bundle.exit_code}
        self._write("finished", at_once=True)
        self._close()

    def _write(self, event: str, at_once: bool = False) -> None:
        now = self._clock()
        if self._file is None or not (at_once or now - self._written >= LEAST_BETWEEN_S):
            return
        self._written = now
        self._finished = [*self._finished, *self._new][-MOST_FINISHED:]
        line = {"event": event, "id": self._number, "time": time.time(), **self._state, "load": os.getloadavg()[0]}
        try:
            if self._size > MOST_BYTES:
                self._start_anew(line)
            else:
                self._append({**line, "finished": self._new})
        except OSError:  # the file system is full
            self._close()
        self._number, self._new = self._number + 1, []

    def _start_anew(self, line: Mapping[str, object]) -> None:
        """Replace the file by one whose only line also has what was before, so that it stays small."""
        self._close()
        anew = self._path.with_suffix(UNFINISHED)
        self._open(anew)
        self._append({**line, "finished": self._finished, "course": self._course})
        self._size = 0
        anew.rename(self._path)

    def _open(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = 0

    def _append(self, line: Mapping[str, object]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if self._file is None or os.write(self._file, data) != len(data):
            raise OSError("the line was not written as a whole")
        self._size += len(data)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
