"""Reads a Chrome trace, event by event: of a document with the list 'traceEvents', or of such a list.

Profilers write texts of the profiled program and of the system without care: bad escapes, quotes, bytes of another
encoding. An event that is no JSON for such a reason is left out alone; the events behind it are read.
Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from attrs import frozen

# What Kineto's categories of slices are: work of a device by its kind, and calls of the runtime.
WORK = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
RUNTIME = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "runtime")

_BUFFER = 1 << 16  # bytes that are read at once, at least
_MOST = 64 << 20  # characters of an event, and of the fields around the events
_LONGEST = 16  # characters of a number, a word or an escape that the end of the buffer may cut
_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
_BRACKETS = ("]", "}")
_BETWEEN = re.compile(r"[\s,]*")
_NEXT = re.compile(r'[},]\s*(?=\{\s*")')  # before an object that is a member of a list


class Source(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""


@frozen
class Unreadable:
    """An event that is no JSON. why: in words."""

    why: str


class TraceEvents:
    """The events of a trace, to be iterated once, with an `Unreadable` in place of an event that is no JSON.

    Integers have any size, NaN and Infinity are floats, texts may hold control characters, and a byte that is no UTF-8
    becomes U+FFFD.

    fields: of the document beside the events; complete at the end.
    found: whether there is a list of events.
    ended_early: whether the document ends before its list or its brackets do.
    damage: why fields are missing; empty where none is.
    """

    def __init__(self, source: Source) -> None:
        self.fields: dict[str, Any] = {}
        self.found = self.ended_early = False
        self.damage = ""
        self._source = source
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._json = json.JSONDecoder(strict=False)
        self._text, self._at, self._event = "", 0, 0
        self._passed, self._exhausted = 0, False  # bytes before the text; whether nothing follows it

    @property
    def place(self) -> int:
        """The byte at which the newest event begins; about, where bytes before it are no UTF-8."""
        return self._passed + len(self._text[: self._event].encode())

    def __iter__(self) -> Iterator[Any]:
        while not self._text.strip():
            self._at = len(self._text)
            if not self._fill():
                return
        if self._text.lstrip().startswith("["):
            opening, closing, self.found = "[", "]", True
            self._at = self._text.index("[") + 1
        else:
            opening, closing = '{"traceEvents": [', "]}"
            fields, self.found = self._outside()
            if self.found:
                self._take(fields + closing)
        more = self.found
        while more:
            yield from self._list()
            fields, more = self._outside()
            if fields:
                self._take(opening + fields + (closing if more else ""))

    def _list(self) -> Iterator[Any]:
        """The events up to the end of their list."""
        lost = False  # within an event that is no JSON; its parts may be objects, too
        while self._find_object() if lost else self._find_value():
            try:
                event, end = self._value()
            except (ValueError, RecursionError) as error:
                self._event = self._at
                if self._exhausted and _is_early(error, self._text):
                    self._at, self.ended_early = len(self._text), True
                    return
                yield Unreadable(_why(error))
                lost = True
                continue
            self._event, self._at = self._at, end
            if lost and not (isinstance(event, dict) and "ph" in event):
                self._at -= 1
                continue
            lost = False
            yield event

    def _find_value(self) -> bool:
        """Move to the next value; False at the end of the list."""
        while (place := _BETWEEN.match(self._text, self._at).end()) == len(self._text):  # type: ignore[union-attr]
            self._at = place
            if not self._fill():
                self.ended_early = True
                return False
        self._at = place
        return self._text[place] != "]"

    def _find_object(self) -> bool:
        """Move to the next object that is a member of a list; False where none follows in the document."""
        while not (match := _NEXT.search(self._text, self._at)):
            last = max(self._text.rfind(end) for end in "},")  # what follows may be the begin of a match
            self._at = max(self._at, last) if last >= 0 else len(self._text)
            if not self._fill():
                self._at, self.ended_early = len(self._text), not self._text.endswith(_BRACKETS)
                return False
        self._at = match.end()
        return True

    def _value(self) -> tuple[Any, int]:
        """The value at the place, and its end, with as much of the document as it takes."""
        while True:
            try:
                return self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                cut = _reached(error, self._text) > len(self._text) - _LONGEST and len(self._text) - self._at < _MOST
                if self._exhausted or not cut:
                    raise
                self._fill()

    def _outside(self) -> tuple[str, bool]:
        """The text up to the begin of a list of events, and whether there is one."""
        while not (match := _LIST.search(self._text, self._at)):
            if len(self._text) - self._at > _MOST or not self._fill():
                break
        begin, self._at = self._at, match.end() if match else len(self._text)
        return self._text[begin : self._at], match is not None

    def _take(self, text: str) -> None:
        """Take the fields of a document without its events."""
        try:
            value = self._json.decode(text)
        except (ValueError, RecursionError) as error:
            if self._exhausted and _is_early(error, text):
                self.ended_early = True
            else:
                self.damage = _why(error)
        else:
            self.fields |= value if isinstance(value, dict) else {}

    def _fill(self) -> bool:
        """Read on, and forget what is before the place; False at the end of the document."""
        rest = self._text[self._at :]
        data = self._source.read(max(_BUFFER, len(rest)))
        self._passed += len(self._text[: self._at].encode())
        self._text, self._at = rest + self._decode(data, not data), 0
        if not data:
            self._text, self._exhausted = self._text.rstrip(), True
        return bool(data)


def arguments(event: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an event; none where it has something else in their place."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _reached(error: Exception, text: str) -> int:
    """The place at which a value is no JSON; the end of the text for a string without an end."""
    if isinstance(error, json.JSONDecodeError):
        return len(text) if error.msg.startswith("Unterminated string") else error.pos
    return 0


def _is_early(error: Exception, text: str) -> bool:
    """Tell a value that is no JSON because the text ends within it."""
    return _reached(error, text) == len(text) or not text.endswith(_BRACKETS)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)
