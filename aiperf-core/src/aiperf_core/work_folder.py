"""Temporary folders that no process leaves behind, however it ends."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# A killed process that writes to a slow disk ends only after the write.
_ENDING_S, _POLL_S = 10.0, 0.025
_WORK = "aiperf-work-"
_YOUNG_S = 60.0


class WorkFolder:
    """A temporary folder that is locked while this process lives.

    Making a folder removes those of processes that ended without `close`.
    """

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_WORK))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        remove(self.path)
        os.close(self._lock)


def _sweep(where: Path) -> None:
    """Remove work folders that no process has locked, except new ones, which may not be locked yet."""
    for folder in where.glob(f"{_WORK}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, or removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(lock).st_mtime > _YOUNG_S:
                remove(folder)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder and all that is in it, while processes that were just killed may still be ending."""
    deadline = time.monotonic() + _ENDING_S
    while folder.exists() and time.monotonic() < deadline:
        _delete(folder)
        if folder.exists():
            time.sleep(_POLL_S)


def _delete(folder: Path) -> None:
    """Remove what can be removed of a folder, at any depth."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
