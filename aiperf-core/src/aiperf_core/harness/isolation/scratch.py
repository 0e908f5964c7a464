"""The one folder in which a candidate may write, and what keeps it from filling the disk."""

import contextlib
import errno
import fcntl
import math
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

# The limit of a process is on each file; this one is on all of them together.
MOST_BYTES = 4 << 30
LOOK_EVERY_S = 0.25
# A process that writes to a slow disk when it is killed ends when that is done.
_ENDING_S = 10.0
_WORK = "aiperf-work-"
_YOUNG_S = 60.0


class Scratch:
    """A temporary folder that is looked at every quarter of a second.

    `on_full` is called once, in a thread of its own, when the files in it take more than `most_bytes` of disk.
    """

    def __init__(self, on_full: Callable[[], None], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="aiperf-candidate-"))
        self.path.chmod(0o711)  # users of their own go through it to their folders
        self.full = False
        self._on_full, self._most_bytes = on_full, most_bytes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="scratch", daemon=True)
        self._thread.start()

    def new(self) -> str:
        """Make an empty folder in it, for one process: the next one is another user, and shall find nothing of this one's."""
        return tempfile.mkdtemp(dir=self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        self._closed.set()
        self._thread.join()
        _delete(self.path)

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            if disk_bytes(self.path) > self._most_bytes:
                self.full = True
                self._on_full()
                return


class WorkFolder:
    """A temporary folder that is locked for as long as this process lives.

    Where a process ends without `close`, the next folder that is made anywhere on the machine takes the old one away.
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
    """Remove work folders that nobody holds. One that was made just now may not be locked yet."""
    for folder in where.glob(f"{_WORK}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # somebody else's, or gone
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
            time.sleep(LOOK_EVERY_S / 10)


def _delete(folder: Path) -> None:
    """Remove what can be removed of a folder, however deep its folders go."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


def disk_bytes(folder: Path) -> float:
    """What the files under a folder take of the disk, in bytes; holes in files take nothing.

    Infinity where folders lie so deep in each other that no path leads there: what they hold cannot be counted.
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
