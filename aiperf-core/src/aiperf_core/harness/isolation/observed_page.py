"""The page that an observer and the process which it times share: the start of a sample, and its end.

A sample has a number of its own, drawn at random. The observer writes it at the start, together with the inputs that
are numbers. The process writes it back when its output is complete. Code that writes to the page itself gains nothing:
it does not know the next number before the start, and its output is compared as it is at the end.
"""

import json
import mmap
import os
from typing import Any

from attrs import define, field

from aiperf_core.devices import host_memory

# Sizes in bytes: of the whole, and of each of the two texts.
_SIZE, _TEXT = 1 << 20, (1 << 19) - 64
_RELEASED_TEXT, _ENDED_TEXT = 64, 1 << 19
# Indices of 64-bit words: the numbers at the start and the end, and the lengths of the texts.
_STARTED, _ENDED, _RELEASED_LENGTH, _ENDED_LENGTH = 0, 1, 2, 3


@define(eq=False)
class ObservedPage:
    """A mapping of the page.

    fd: its descriptor.
    """

    fd: int
    _memory: mmap.mmap = field(init=False)
    _words: memoryview = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map it."""
        self._memory = mmap.mmap(self.fd, _SIZE, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._words = memoryview(self._memory)[:_RELEASED_TEXT].cast("Q")

    @classmethod
    def create(cls) -> "ObservedPage":
        """A new page, which no process may resize."""
        return cls(host_memory.allocate(_SIZE))

    def close(self) -> None:
        """Unmap it and close its descriptor."""
        self._words.release()
        self._memory.close()
        os.close(self.fd)

    # --- the observer's side

    def write(self, numbers: dict[str, float]) -> None:
        """Write the inputs that are numbers."""
        self._words[_RELEASED_LENGTH] = self._put(_RELEASED_TEXT, numbers)

    def start(self, number: int) -> None:
        """Start the sample with this number."""
        self._words[_STARTED] = number

    def has_ended(self, number: int) -> bool:
        """Whether the process has ended the sample with this number."""
        return self._words[_ENDED] == number

    def told(self) -> Any:
        """The numbers of the output, as the process wrote them. Raises `ValueError` for what is no JSON."""
        length = self._words[_ENDED_LENGTH]
        if length > _TEXT:
            raise ValueError(f"expected a text of at most {_TEXT} bytes, found {length}")
        try:
            return json.loads(self._memory[_ENDED_TEXT : _ENDED_TEXT + length], parse_constant=_refuse)
        except RecursionError:
            raise ValueError("expected numbers by their paths, found a text that is nested too deeply") from None

    # --- the process's side

    @property
    def number(self) -> int:
        """The number of the sample that was started last."""
        return int(self._words[_STARTED])

    def wait(self, last: int) -> int:
        """Wait until a sample with another number than the last one is started; return its number."""
        while (number := self._words[_STARTED]) == last:
            pass
        return int(number)

    def numbers(self) -> dict[str, float]:
        """The inputs that are numbers."""
        length = self._words[_RELEASED_LENGTH]
        numbers: dict[str, float] = json.loads(self._memory[_RELEASED_TEXT : _RELEASED_TEXT + length])
        return numbers

    def end(self, number: int, numbers: dict[str, float]) -> None:
        """End the sample with this number, with the numbers of its output."""
        self._words[_ENDED_LENGTH] = self._put(_ENDED_TEXT, numbers)
        self._words[_ENDED] = number

    def _put(self, place: int, numbers: dict[str, float]) -> int:
        text = json.dumps(numbers, separators=(",", ":")).encode()
        if len(text) > _TEXT:
            raise ValueError(f"the numbers take {len(text)} bytes as text; at most {_TEXT} have a place")
        self._memory[place : place + len(text)] = text
        return len(text)


def _refuse(constant: str) -> None:
    raise ValueError(f"expected a finite number, found {constant}")
