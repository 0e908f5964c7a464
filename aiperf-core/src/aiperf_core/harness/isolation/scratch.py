"""Scratch: the only folder in which a candidate may write, and the watch on what it takes of disk and memory."""

import contextlib
import math
import os
import signal
import tempfile
import threading
from collections.abc import Callable

from aiperf_core.harness.isolation.process_monitor import ProcessMonitor
from aiperf_core.harness.isolation.resource_use import disk_use, nameless_files, private_bytes
from aiperf_core.harness.isolation.survivor import Survivor
from aiperf_core.work_folder import WorkFolder

# Of all files together, also of those without a name; the process limit is on each file.
MOST_BYTES = 4 << 30
MOST_FILES = 1 << 17
POLL_S = 0.25


class Scratch:
    """A temporary folder. What its processes take is looked at every `POLL_S` seconds.

    Where the first of them has ended, the others are ended: they would hold its channel open.

    on_overuse: called once, in another thread, when it is more than they may take.
    most_memory_bytes: of all processes together, with files in memory; the process limit is on private memory of each.
    overuse: what was too much; empty if nothing was.
    """

    def __init__(
        self,
        on_overuse: Callable[[], None],
        *,
        most_bytes: int = MOST_BYTES,
        most_files: int = MOST_FILES,
        most_memory_bytes: float = math.inf,
    ) -> None:
        self._folder = WorkFolder()
        self.path = self._folder.path
        self._device = os.stat(self.path).st_dev
        self.path.chmod(0o711)  # confined processes with other user ids pass through it to their folders
        self.overuse = ""
        self._on_overuse, self._most_bytes, self._most_files = on_overuse, most_bytes, most_files
        self._most_memory_bytes = most_memory_bytes
        self._process: ProcessMonitor | None = None
        self._survivor = Survivor(self.path)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="scratch", daemon=True)
        self._thread.start()

    def new(self, pid: int) -> str:
        """Make an empty folder in it for a process; the next process, another user, gets another folder."""
        self._survivor.watch(pid)
        self._process = ProcessMonitor(pid)
        return tempfile.mkdtemp(dir=self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        self._closed.set()
        self._thread.join()
        self._folder.close()
        self._survivor.close()

    def _watch(self) -> None:
        while not self._closed.wait(POLL_S):
            if self._process is not None and self._process.has_ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            if overuse := self._find_overuse():
                self.overuse = overuse
                self._on_overuse()
                return

    def _find_overuse(self) -> str:
        """Message about the limit that is exceeded; empty if none is."""
        pids = [] if self._process is None else [self._process.pid, *self._process.descendants()]
        files = nameless_files(pids)
        for known in nameless_files([os.getpid()]):  # the harness lends its processes memory
            files.pop(known, None)
        disk = disk_use(self.path)
        on_disk = sum(size for (device, _), size in files.items() if device == self._device)
        in_memory = sum(files.values()) - on_disk
        if disk.bytes + on_disk > self._most_bytes:
            return (
                f"its files exceed the {self._most_bytes >> 30} GiB of disk that a candidate may use, or are in "
                "folders too deep to count"
            )
        if disk.files > self._most_files:
            return f"it has more files than the {self._most_files:,} that a candidate may have"
        memory = in_memory + private_bytes(pids, self._most_memory_bytes - in_memory)
        if memory > self._most_memory_bytes:
            return (
                f"its processes take {memory / (1 << 30):.2f} GiB of memory, of the "
                f"{self._most_memory_bytes / (1 << 30):.2f} GiB that a candidate may take"
            )
        return ""
