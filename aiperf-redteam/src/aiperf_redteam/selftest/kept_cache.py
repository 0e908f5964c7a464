"""Whether a core's cache keeps data for as long as a flush takes.

Where it does not, a flush in vain leaves the cache as cold as a real one: an attack on the flush gains nothing, and no
measurement can show it. That is so on a virtual machine whose cores other guests use too.
"""

import time
from collections.abc import Callable
from typing import Any

from aiperf_core.devices.timing import probe
from aiperf_core.measurements import Flush
from aiperf_core.stats.conditions import warm_after_flush

NEED = "kept_cache"

# As long as twice a large last-level cache takes to be written where all writes go to a few pages.
PAUSE_S = 0.1
# Within a core's own cache, and beyond it.
_READ_BYTES, _OTHER_BYTES = 64 << 10, 16 << 20


def lacking() -> str:
    """Why a flush in vain cannot be seen on this machine now, with the measured times; empty where it can."""
    flush = measure()
    if warm_after_flush(flush) is not None:
        return ""
    return (
        f"needs a cache that keeps data for {PAUSE_S * 1e3:.0f} ms: a read takes {flush.flushed_s * 1e6:.3g} us after "
        f"such a pause, {flush.hot_s * 1e6:.3g} us hot and {flush.cold_s * 1e6:.3g} us displaced"
    )


def measure() -> Flush:
    """The shortest times of a read, in seconds: hot, displaced, and after a pause in place of a flush."""
    return probe(_reader(_READ_BYTES), _reader(_OTHER_BYTES), _pause, _seconds, min)


def _reader(size: int) -> Callable[[], bool]:
    """Reads two buffers of this size, which are equal."""
    first, other = bytes(size), bytes(bytearray(size))
    return lambda: first == other


def _pause() -> None:
    """Keep the processor busy without memory."""
    end = time.perf_counter() + PAUSE_S
    while time.perf_counter() < end:
        pass


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
