"""Memory that two machines keep equal: changes on one side are sent to the other.

Each side has the memory itself, which other processes of its machine map, and a private copy of the other side's last
known content. Comparing the two finds every change, whichever process made it.
"""

import mmap
from collections.abc import Iterator

_CHUNK_BYTES = 1 << 18

Span = tuple[int, int]  # start and length in bytes


class MemorySync:
    """One side of such memory: `size` bytes behind a descriptor, which stays open and the caller's."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._memory = mmap.mmap(fd, size)
        self._known = bytearray(size)

    def changes(self) -> list[Span]:
        """The spans that differ from the other side, which the caller must send (see `part`)."""
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
        """The bytes of a span in the private copy, to send or to receive into; `accept` follows a receive."""
        start, length = span
        return memoryview(self._known)[start : start + length]

    def accept(self, span: Span) -> None:
        """Copy a received span into the memory."""
        start, length = span
        self._memory[start : start + length] = self._known[start : start + length]

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()


def spans(told: object, size: int) -> Iterator[Span]:
    """The spans in a message about memory of `size` bytes. Raises `ValueError` for anything else."""
    if not isinstance(told, list):
        raise ValueError(f"expected a list of spans, found a {type(told).__name__}")
    for span in told:
        if not (isinstance(span, list) and len(span) == 2 and all(type(part) is int for part in span)):
            raise ValueError(f"expected a span, found {str(span)[:50]!r}")
        start, length = span
        if start < 0 or length <= 0 or start + length > size:
            raise ValueError(f"a span of {length} bytes at {start} is not within {size}")
        yield start, length
