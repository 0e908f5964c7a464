"""Memory that two machines keep alike: what changed on one side since both were the same is sent to the other.

Each side has the memory itself, which other processes of its machine map, and a copy of what the other side was last known to
hold. The copy is no process's but that of whoever keeps the mirror, so that a change is found whoever made it.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator

_CHUNK_BYTES = 1 << 18

Span = tuple[int, int]  # where it starts and how long it is, in bytes


class MemorySync:
    """One side of such memory, of `size` bytes behind a descriptor, which stays open and the caller's."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._memory = mmap.mmap(fd, size)
        self._known = bytearray(size)

    def changes(self) -> list[Span]:
        """What differs from what the other side holds, which it is now to be sent (see `part`)."""
        found: list[Span] = []
        for start in range(0, self.size, _CHUNK_BYTES):
            now = self._memory[start : start + _CHUNK_BYTES]
            if now == self._known[start : start + _CHUNK_BYTES]:
                continue
            self._known[start : start + len(now)] = now
            if found and sum(found[-1]) == start:
                found[-1] = (found[-1][0], found[-1][1] + len(now))
            else:
                found.append((start, len(now)))
        return found

    def part(self, span: Span) -> memoryview:
        """The bytes of a span as the other side was or will be told; writing there is followed by `accept`."""
        start, length = span
        return memoryview(self._known)[start : start + length]

    def accept(self, span: Span) -> None:
        """Take over what the other side has sent for a span."""
        start, length = span
        self._memory[start : start + length] = self._known[start : start + length]

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()


def create(size: int) -> int:
    """The descriptor of so many zeros that other processes may map, and none may shrink."""
    fd = os.memfd_create("aiperf-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def spans(told: object, size: int) -> Iterator[Span]:
    """The spans of a message. Raises `ValueError` for what is none of so many bytes."""
    if not isinstance(told, list):
        raise ValueError(f"a {type(told).__name__} stands where a list of spans should")
    for one in told:
        if not (isinstance(one, list) and len(one) == 2 and all(type(part) is int for part in one)):
            raise ValueError(f"{str(one)[:50]!r} stands where a span should")
        start, length = one
        if start < 0 or length <= 0 or start + length > size:
            raise ValueError(f"a span of {length} bytes at {start} is not within {size}")
        yield start, length
