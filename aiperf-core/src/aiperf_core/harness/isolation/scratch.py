"""Scratch: the only folder in which a candidate may write, with a limit on its size."""

import contextlib
import errno
import math
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from aiperf_core import work_folder

# Of all files together; the process limit is on each file.
MOST_BYTES = 4 << 30
POLL_S = 0.25


class Scratch:
    """A temporary folder whose size is checked every `POLL_S` seconds.

    on_full: called once, in another thread, when the files in it take more than `most_bytes` of disk.
    """

    def __init__(self, on_full: Callable[[], None], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="aiperf-candidate-"))
        self.path.chmod(0o711)  # confined processes with other user ids pass through it to their folders
        self.full = False
        self._on_full, self._most_bytes = on_full, most_bytes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="scratch", daemon=True)
        self._thread.start()

    def new(self) -> str:
        """Make an empty folder in it for one process; the next process, another user, gets another folder."""
        return tempfile.mkdtemp(dir=self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        self._closed.set()
        self._thread.join()
        work_folder.remove(self.path)

    def _watch(self) -> None:
        while not self._closed.wait(POLL_S):
            if disk_bytes(self.path) > self._most_bytes:
                self.full = True
                self._on_full()
                return


def disk_bytes(folder: Path) -> float:
    """The disk space of the files under a folder in bytes; holes in files take none.

    Infinity where folders are nested too deeply for a path: their files cannot be counted.
    """
    total, folders = 0, [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                found = list(entries)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return math.inf
            continue  # it was removed
        folders += [one.path for one in found if one.is_dir(follow_symlinks=False)]
        for one in found:
            with contextlib.suppress(OSError):  # it was removed
                total += one.stat(follow_symlinks=False).st_blocks * 512
    return total
