"""A timer that wakes an event loop within some tens of microseconds.

The event loop's own timers are rounded up to a millisecond by `epoll_wait`, as long as the whole lateness that a load
generator may have. A `timerfd` of Linux has the kernel's resolution, and the event loop waits for it as for a socket.
"""

import asyncio
import ctypes
import heapq
import os
from itertools import count

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """Waits for times of the monotonic clock. Use as a context manager, within a running event loop."""

    def __enter__(self) -> "Timer":
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._descriptor = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop.add_reader(self._descriptor, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    async def until(self, at_s: float) -> None:
        """Return at this time of `time.monotonic`, or at once if it has passed."""
        if at_s <= self._loop.time():
            return
        waiting = self._loop.create_future()
        heapq.heappush(self._waiting, (at_s, next(self._numbers), waiting))
        if self._waiting[0][2] is waiting:
            self._set(at_s)
        await waiting

    def _ring(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return
        now_s = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now_s:
            waiting = heapq.heappop(self._waiting)[2]
            if not waiting.done():
                waiting.set_result(None)
        if self._waiting:
            self._set(self._waiting[0][0])

    def _set(self, at_s: float) -> None:
        whole = int(at_s)
        # Rounded up, so that the time has passed when the timer rings.
        value = _Timespec(whole, min(999_999_999, int((at_s - whole) * 1e9) + 1))
        setting = ctypes.byref(_Setting(_Timespec(0, 0), value))
        if _libc.timerfd_settime(self._descriptor, _ABSOLUTE, setting, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
