"""Values of a foreign file, each checked before it is used. A wrong one is the user's to act on, by its place."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import cause, words
from aiperf_core.text_file import text_of

MOST_BYTES = 512 << 20
MOST_NUMBER = 1e15  # of any count or time in a result
SHOWN = 60  # characters of a wrong value


@frozen
class Fields:
    """An object within a file.

    file, tool: for messages.
    place: of the object, such as `benchmarks[0].metrics`; empty for the whole file.
    """

    file: Path
    tool: str
    place: str
    content: dict[str, Any]

    def wrong(self, key: str, accepted: str) -> UsageError:
        """The error for a value."""
        place = f"{self.place}.{key}" if self.place else key
        value = words(repr(self.content[key])[: 4 * SHOWN])[:SHOWN] if key in self.content else "missing"
        return UsageError(
            f"'{self.file}' is no result of {self.tool}: {place} is {value}; accepted is {accepted}. Name the file "
            "that the tool wrote, and the tool with --from."
        )

    def number(self, key: str) -> float:
        """A number from 0."""
        value = self.content.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_NUMBER:
            raise self.wrong(key, "a number from 0")
        return float(value)

    def time(self, key: str) -> float:
        """A time in the tool's unit. Tools also write some below 0, which become no figures."""
        value = self.content.get(key)
        if isinstance(value, int | float) and -MOST_NUMBER <= value < 0:
            return float(value)
        return self.number(key)

    def optional(self, key: str) -> float | None:
        """A number from 0, or None where it is null or missing."""
        return None if self.content.get(key) is None else self.number(key)

    def above_zero(self, key: str) -> float:
        """A number above 0."""
        value = self.number(key)
        if value == 0:
            raise self.wrong(key, "a number above 0")
        return value

    def whole(self, key: str) -> int:
        """A whole number from 0."""
        value = self.number(key)
        if value != math.floor(value):
            raise self.wrong(key, "a whole number from 0")
        return int(value)

    def text(self, key: str) -> str:
        """A text; empty where it is missing."""
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a text")
        return words(value or "")

    def within(self, key: str) -> "Fields":
        """The object under a key."""
        value = self.content.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(self.file, self.tool, f"{self.place}.{key}" if self.place else key, value)

    def has(self, key: str) -> bool:
        """Whether there is a value that is not null."""
        return self.content.get(key) is not None

    def each(self, key: str) -> list["Fields"]:
        """The objects of a list."""
        value = self.content.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, "a list of objects, at least one")
        place = f"{self.place}.{key}" if self.place else key
        return [Fields(self.file, self.tool, f"{place}[{index}]", one) for index, one in enumerate(value)]


def documents(file: Path, tool: str) -> tuple[str, list[Fields]]:
    """The SHA-256 of a file, and the JSON objects in it: one, or several after each other. Raises UsageError."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(
                f"'{file}' has {file.stat().st_size:,} bytes; results of up to {MOST_BYTES:,} are read. Export it "
                "without the texts of requests and answers."
            )
        data = file.read_bytes()
        text = text_of(file, data)
    except OSError as error:
        raise UsageError(f"cannot read '{file}': {cause(error)}. Name a JSON file of {tool}.") from None
    found: list[Fields] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            one, at = decoder.raw_decode(text, at + _blank(text, at))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"'{file}' is not JSON: {error}. Name a JSON file of {tool}.") from None
        if not isinstance(one, dict):
            raise UsageError(f"'{file}' holds {type(one).__name__}; a result of {tool} is an object.")
        found.append(Fields(file, tool, "", one))
        at += _blank(text, at)
    if not found:
        raise UsageError(f"'{file}' is empty. Name a JSON file of {tool}.")
    return hashlib.sha256(data).hexdigest(), found


def _blank(text: str, at: int) -> int:
    """The number of characters of white space at a place."""
    end = at
    while end < len(text) and text[end] in " \t\r\n":
        end += 1
    return end - at
