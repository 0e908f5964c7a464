"""How much a flush of a processor's caches must write: measured once for a machine, and checked at every flush.

A virtual machine is told of a last-level cache that it shares with others, and which may be far larger than the part
that its processes can fill. Writing twice that size takes a tenth of a second, and less displaces as much.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from attrs import frozen

# Memory that is read to see whether it was displaced: a line in four of it, in an order that no prefetcher follows.
_CANARY_BYTES, _LINES, _LINE_BYTES = 1 << 20, 4096, 64
# From this ratio of a displaced read to one from the last-level cache, the two are told apart.
_CLEAR = 2.0
# Reads after flushes of one size, all of which must be displaced, and reads after the whole size.
_TRIES, _WHOLE_TRIES = 15, 5
# The size that is written, in units of the smallest one that displaced every time.
_MARGIN = 2
_MIB = 1 << 20


@frozen
class FlushBound:
    """Bytes that a flush writes on a machine.

    size_bytes: what it writes. It is `whole_bytes` where a smaller size did not displace, or nothing could be measured.
    whole_bytes: twice the last-level cache that the kernel tells of.
    displaced_s: a read of the canary that takes less was from a cache, in seconds; 0 where the whole size is written.
    reason: how the size was found.
    """

    size_bytes: int
    whole_bytes: int
    displaced_s: float
    reason: str


class Canary:
    """Memory whose read takes longer when it was displaced from the caches."""

    def __init__(self) -> None:
        words = _LINE_BYTES // 8
        self._memory = np.ones(_CANARY_BYTES // 8, dtype=np.int64)
        self._places = np.random.default_rng(0).permutation(_CANARY_BYTES // _LINE_BYTES)[:_LINES] * words
        self._found = np.empty(_LINES, dtype=np.int64)

    def read(self) -> None:
        """Read it, so that it lies in the caches."""
        np.take(self._memory, self._places, out=self._found, mode="clip")

    def read_s(self) -> float:
        """The time of a read, in seconds."""
        start = time.perf_counter_ns()
        self.read()
        return (time.perf_counter_ns() - start) / 1e9


def find(read_after: Callable[[int], float], least_bytes: int, whole_bytes: int) -> FlushBound:
    """The smallest size that displaces the canary in every try, with a margin.

    read_after: the time of a read of the canary, which lay in the caches, after this number of bytes was written.
    least_bytes: displaces the cores' own caches, and leaves most of a last-level cache.
    """

    def whole(reason: str) -> FlushBound:
        return FlushBound(whole_bytes, whole_bytes, 0.0, reason)

    if least_bytes >= whole_bytes:
        return whole("the cores' own caches are as large as the last-level cache")
    read_after(whole_bytes)  # touches the pages
    near_s = min(read_after(least_bytes) for _ in range(_TRIES))  # other work only adds to it
    far_s = median(read_after(whole_bytes) for _ in range(_WHOLE_TRIES))
    told = f"a read takes {near_s * 1e6:.3g} us from the last-level cache and {far_s * 1e6:.3g} us displaced"
    if far_s < _CLEAR * near_s:
        return whole(f"{told}, which are too alike to tell apart")
    displaced_s, size = (near_s + far_s) / 2, least_bytes
    while _MARGIN * size < whole_bytes:
        if all(read_after(size) >= displaced_s for _ in range(_TRIES)):
            reason = f"{told}; all of {_TRIES} reads were displaced after {size // _MIB} MiB"
            return FlushBound(_MARGIN * size, whole_bytes, displaced_s, reason)
        size *= 2
    return whole(f"{told}; after {size // (2 * _MIB)} MiB reads were not always displaced")
