"""JSON for readers: indented, with short objects and lists, and all columns of samples, on one line.

Two rules are stricter than Python's `json`: numbers must be finite in both directions, and values must have a JSON
type. Errors name the place in the document, such as `rows[2].time_s.value`.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

LINE = 110  # for an object or list of scalars
NESTED_LINE = 80  # for one that holds others
INDENT = "  "
DEEPEST = 100  # lists and objects in each other; no writer comes near, and no reader runs out of stack
Place = Sequence[str | int]


class JsonError(ValueError):
    """A document that cannot be written or read. `place` is the JSON path; `found` and `expected` are for messages."""

    def __init__(self, place: str, found: str, expected: str) -> None:
        place, found = _printable(place), _printable(found)
        super().__init__(f"at {place}: found {found}; expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


def _printable(text: str) -> str:
    """Text of a document for a message, without characters that move a terminal's cursor."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def place_name(place: Place) -> str:
    """`["rows", 2, "time_s"]` as `rows[2].time_s`; the document itself is `the top level`."""
    name = ""
    for step in place:
        if isinstance(step, int):
            name += f"[{step}]"
        elif re.fullmatch(r"\w+", step):
            name += f".{step}" if name else step
        else:
            name += f"[{json.dumps(step, ensure_ascii=False)}]"
    return name or "the top level"


def dumps(document: Any) -> str:
    """Return `document` as text that ends in a newline. Raises JsonError for what JSON cannot hold."""
    return _encode(document, 0, []) + "\n"


def _encode(value: Any, depth: int, place: list[str | int]) -> str:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise JsonError(place_name(place), f"the key {key!r}", "keys that are strings")
        texts = [f"{_scalar(key, place)}: {_encode(item, depth + 1, [*place, key])}" for key, item in value.items()]
        return _container("{", texts, "}", value.values(), depth)
    if isinstance(value, list | tuple):
        if value and _all_numbers(value):
            return _column(value, place)
        texts = [_encode(item, depth + 1, [*place, index]) for index, item in enumerate(value)]
        return _container("[", texts, "]", value, depth)
    return _scalar(value, place)


def _container(opening: str, texts: list[str], closing: str, values: Iterable[Any], depth: int) -> str:
    """Put the items of one object or list together: on one line where it is short enough."""
    flat = not any(isinstance(value, dict | list | tuple) and value for value in values)
    line = opening + ", ".join(texts) + closing
    if len(line) + depth * len(INDENT) <= (LINE if flat else NESTED_LINE) and "\n" not in line:
        return line
    inner, outer = "\n" + INDENT * (depth + 1), "\n" + INDENT * depth
    return opening + inner + ("," + inner).join(texts) + outer + closing


def _all_numbers(values: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, bool | int | float) for value in values)


def _column(values: Sequence[Any], place: list[str | int]) -> str:
    """Write a list of numbers with the C encoder: there may be a hundred thousand."""
    try:
        return json.dumps(values, allow_nan=False)
    except ValueError:
        for index, value in enumerate(values):
            _scalar(value, [*place, index])
        raise


def _scalar(value: Any, place: list[str | int]) -> str:
    if value is None or isinstance(value, str | bool | int):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise JsonError(place_name(place), str(value), "a finite number, or null for what was not measured")
        return json.dumps(value)
    raise JsonError(place_name(place), f"a {type(value).__qualname__}", "a string, number, boolean, null, list or dict")


def to_bytes(document: Any) -> bytes:
    """Return `document` as UTF-8. A lone surrogate (a log's undecodable byte) becomes its JSON escape."""
    return dumps(document).encode("utf-8", errors="backslashreplace")


def loads(data: bytes) -> Any:
    """Parse UTF-8 JSON. Raises JsonError for malformed or truncated text, twice-given keys and numbers not finite."""
    try:
        document = json.loads(data.decode("utf-8"), parse_int=_integer, object_pairs_hook=_unique_keys)
        _check_finite(document, [])
    except UnicodeDecodeError as error:
        raise JsonError(f"byte {error.start}", "bytes that are not UTF-8", "JSON text in UTF-8") from None
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].strip()
        found = f"'{rest[:20]}'" if rest else "the end of the file"
        raise JsonError(f"line {error.lineno}, column {error.colno}", found, f"JSON ({error.msg})") from None
    except RecursionError:
        raise JsonError("some place", "very deep nesting", "JSON as aiperf writes it") from None
    return document


def _check_finite(value: Any, place: list[str | int]) -> None:
    """Refuse deep nesting, `NaN`, which Python reads though it is not JSON, and numbers above all floats (`1e999`)."""
    if isinstance(value, float) and not math.isfinite(value):
        raise JsonError(place_name(place), str(value), "a finite number")
    if isinstance(value, dict | list):
        if len(place) >= DEEPEST:
            raise RecursionError
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, float | dict | list):  # or every string of a log would cost a call
                _check_finite(item, [*place, step])


def _integer(text: str) -> int:
    # Seeds have 64 bits. Python takes quadratic time for very long numbers.
    if len(text.lstrip("-")) > 30:
        found = f"{text[:20]}... ({len(text)} characters)"
        raise JsonError("some place", found, "integers of at most 30 digits")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise JsonError("some place", f"the key '{twice}' twice in one object", "every key once")
    return found
