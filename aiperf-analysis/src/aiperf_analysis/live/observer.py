"""Writes the state of a run to a file of JSON lines, one file a run, which the reader in `tail` follows.

A file that cannot be created or written ends the writing, never the run.
"""

import json
import os
import time
from collections.abc import Callable, Mapping

from aiperf_analysis.live.place import SUFFIX, live_folder, start_ticks
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted

# At most five lines a second.
LEAST_BETWEEN_S = 0.2


class LiveObserver:
    """The observer. Each line holds the whole state; a line that comes too soon is left out.

    A target that finished is named in the next line that is written, so that no end of a target is lost.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file: int | None = None
        self._written = 0.0
        self._number = 0
        self._state: dict[str, object] = {}
        self._finished: list[Mapping[str, object]] = []

    def run_started(self, run: RunStarted) -> None:
        """Create the file."""
        self._close()
        pid = os.getpid()
        self._number, self._finished = 0, []
        self._state = {"pid": pid, "start": start_ticks(pid), "bundle": run.bundle, "device": run.device}
        self._state |= {"total": len(run.targets)}
        folder = live_folder()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = folder / f"{pid}-{time.time_ns():x}{SUFFIX}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(name, flags, 0o600)
        except OSError:
            return
        self._write("started", at_once=True)

    def target_started(self, target: TargetStarted) -> None:
        """A target starts: what is known of the last target is dropped."""
        self._state |= {"target": target.name, "index": target.index, "total": target.total}
        self._state |= dict.fromkeys(("phase", "implementation", "samples", "seconds_left", "undecided", "interval"))
        self._write("running")

    def progress(self, progress: Progress) -> None:
        """The state changed. The last known estimate stays where a change of phase brings none."""
        self._state |= {"phase": progress.phase, "implementation": progress.implementation}
        if progress.seconds_left is not None:
            self._state |= {
                "samples": progress.samples,
                "seconds_left": progress.seconds_left,
                "undecided": progress.undecided,
                "interval": progress.interval,
            }
        self._write("running")

    def target_finished(self, result: TargetFinished) -> None:
        """A target is done."""
        self._finished.append({"target": result.name, "verdicts": dict(result.verdicts), "path": result.path})
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
        line = {"event": event, "id": self._number, "time": time.time(), **self._state}
        line |= {"load": os.getloadavg()[0], "finished": self._finished}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            whole = os.write(self._file, data) == len(data)
        except OSError:
            whole = False
        if not whole:  # the file system is full
            self._close()
        self._number, self._finished = self._number + 1, []

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
