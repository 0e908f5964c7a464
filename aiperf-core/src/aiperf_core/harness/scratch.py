"""The one folder in which a candidate may write, and what keeps it from filling the disk."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

# The limit of a process is on each file; this one is on all of them together.
MOST_BYTES = 4 << 30
LOOK_EVERY_S = 0.25


class Scratch:
    """A temporary folder that is looked at every quarter of a second.

    `on_full` is called once, in a thread of its own, when the files in it take more than `most_bytes` of disk.
    """

    def __init__(self, on_full: Callable[[], None], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="aiperf-candidate-"))
        self.full = False
        self._on_full, self._most_bytes = on_full, most_bytes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="scratch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        self._closed.set()
        self._thread.join()
        shutil.rmtree(self.path, ignore_errors=True)

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            if disk_bytes(self.path) > self._most_bytes:
                self.full = True
                self._on_full()
                return


def disk_bytes(folder: Path) -> int:
    """What the files under a folder take of the disk, in bytes; holes in files take nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:  # it was removed
                continue
    return total
