"""Waits for changes of running runs without polling: inotify(7) for their files, pidfd_open(2) for their ends.

A server on a machine that measures must not wake up by itself while a run is active. The kernel wakes it when a run
writes a line, at most five times a second, or when the process of a run ends.
"""

import asyncio
import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aiperf_analysis.live.place import live_folder
from aiperf_core.errors import AiperfError

# From <sys/inotify.h>: a file was written, moved here, or removed.
_WRITTEN, _MOVED_TO, _REMOVED = 0x2, 0x80, 0x200
_EVENTS_BYTES = 1 << 16


class Watch:
    """Changes of the files of running runs, for any number of waiting tasks of one event loop."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._waiting: set[asyncio.Event] = set()

    @contextmanager
    def changes(self, pid: int | None = None) -> Iterator[asyncio.Event]:
        """An event that is set whenever a file changed, or the process ended.

        The first user opens the watch and the last closes it. Raises AiperfError where the kernel refuses the watch.
        """
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._open(loop)
        self._waiting.add(changed)
        process = _opened(pid)
        try:
            if process is not None:
                loop.add_reader(process, self._ended, loop, process, changed)
            yield changed
        finally:
            if process is not None:
                loop.remove_reader(process)
                os.close(process)
            self._waiting.discard(changed)
            if not self._waiting:
                self._close(loop)

    def _ended(self, loop: asyncio.AbstractEventLoop, process: int, changed: asyncio.Event) -> None:
        loop.remove_reader(process)  # it stays readable
        changed.set()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if fd < 0:
            raise _refused()
        folder = live_folder()
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if libc.inotify_add_watch(fd, os.fsencode(folder), _WRITTEN | _MOVED_TO | _REMOVED) < 0:
            error = _refused()
            os.close(fd)
            raise error
        self._fd = fd
        loop.add_reader(fd, self._changed, fd)

    def _changed(self, fd: int) -> None:
        # Which file changed does not matter: each reader looks at its own.
        with suppress(BlockingIOError):
            os.read(fd, _EVENTS_BYTES)
        for one in self._waiting:
            one.set()

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._fd is not None:
            loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None


def _opened(pid: int | None) -> int | None:
    """A descriptor that is readable when a process ends; None where it has ended, or may not be watched."""
    try:
        return None if pid is None or pid <= 0 else os.pidfd_open(pid)
    except (OSError, OverflowError):
        return None


def _refused() -> AiperfError:
    reason = os.strerror(ctypes.get_errno())
    return AiperfError(
        f"running runs cannot be followed: the kernel watches no further folder ({reason}). End other programs that "
        "watch files, or raise fs.inotify.max_user_instances."
    )
