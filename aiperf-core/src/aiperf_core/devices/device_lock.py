"""Turns, for what processes of one fork server only hinder each other in.

Six processes that make a context on the same GPU at the same time all have it when the last one has, after six times as long. In
turns the first has it at once, and goes on while the others wait.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

# Who waits longer goes on: whatever holds the others up is not to look like this process's fault.
LONGEST_S = 5.0
_POLL_S = 0.001
_lock: int | None = None


def create() -> None:
    """Make the lock that children forked from now on share."""
    global _lock
    _lock = os.memfd_create("aiperf-device-lock", os.MFD_CLOEXEC)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Have the others wait, from here to the end of the block. Without a common lock nobody waits.

    A process that dies lets go of it. One that is confined has had it taken away. A turn within a turn ends both.
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
