"""The end of a process with its parent."""

import ctypes
import os
import signal
from collections.abc import Callable
from functools import partial

_PR_SET_PDEATHSIG = 1
# Loaded here: a child that was forked a moment ago should load no library.
_libc = ctypes.CDLL(None)


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends. An `exec` keeps that; children do not inherit it.

    parent: the process that forked this one. Where it has ended already, this process is killed at once. None is for a
    process that also ends with a channel of its parent.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def end_child_with_this() -> Callable[[], None]:
    """Make the `preexec_fn` of a child that ends with this process, even if this one ends before the child's `exec`."""
    return partial(end_with_parent, os.getpid())
