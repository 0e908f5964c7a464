"""A lock, so that one process at a time writes a bundle.

The kernel holds the lock (`flock`), so it ends with its process, however that ends. A lock file left by a killed
process has no effect.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiperf_core.errors import BundleError

FILE = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class HeldError(BundleError):
    """Another process holds the lock."""


@contextmanager
def held(folder: Path, *, required: bool) -> Iterator[None]:
    """Hold the bundle in `folder` for writing. Raises HeldError where another process holds it.

    Some network file systems have no locks. BundleError is raised there if the lock is `required`; otherwise there is
    no lock.
    """
    path = folder / FILE
    descriptor = _taken(path, required)
    try:
        # The text is for messages alone: the lock holds on a full disk too.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        # Removed while it is held: a process that opened it in the meantime sees that it is gone.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _taken(path: Path, required: bool) -> int:
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise HeldError(
                f"'{path.parent}' is being written by {holder}. Wait until that run ends, or end it; then resume."
            ) from None
        except OSError as error:
            if required or error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise BundleError(
                    f"cannot lock '{path.parent}': {error.strerror or error}. Move it to a file system with locks "
                    "first, so that no two processes write it."
                ) from error
        if _is_there(path, descriptor):
            return descriptor
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise BundleError(
            f"cannot lock '{path.parent}': {error.strerror or error}. Its folder must be writable and not be full."
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundleError(f"'{path}' is not a plain file; a bundle holds plain files and folders only. Remove it.")
    return descriptor


def _is_there(path: Path, descriptor: int) -> bool:
    """Whether the file that is locked is still the one of that name."""
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino)


def _holder(descriptor: int) -> str:
    pid, _, host = os.pread(descriptor, 300, 0).decode(errors="replace").strip().partition(" ")
    return f"process {pid} on {host}" if pid.isdigit() and host else "another process"
