"""A lock around work in which the processes of a fork server only hinder each other.

Six processes that create a context on the same GPU at once all finish together, after six times as long. One after the
other, the first finishes at once and goes on while the others wait.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

# A process that waited longer goes on without the lock: it is not to blame for the delay.
LONGEST_S = 5.0
_POLL_S = 0.001
_lock: int | None = None


def create() -> None:
    """Create the lock that children forked from now on share."""
    global _lock
    _lock = os.memfd_create("aiperf-device-lock", os.MFD_CLOEXEC)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold the lock within the block. Without a common lock no process waits.

    A process that ends releases it. A sandboxed process has no lock. A block within a block releases it early.
    """
    taken = _lock is not None and _take(_lock)
    try:
        yield
    finally:
        if taken and _lock is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(_lock, fcntl.LOCK_UN)


def _take(lock: int) -> bool:
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL_S)
        except OSError:
            return False
        else:
            return True
    return False
