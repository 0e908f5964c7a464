"""Numbers of a recording: profilers write any value in any place."""

from typing import Any

NONE = -1  # the recording does not say
_EXACT = 1 << 53  # a double holds all integers up to it


def is_number(value: Any) -> bool:
    """Tell a number of which a double holds the whole part, such as a time."""
    return type(value) in (int, float) and -_EXACT < value < _EXACT


def whole(value: Any, otherwise: int = NONE) -> int:
    """An integer of 63 bits, also where a text holds it."""
    number = _integer(value)
    return number if number is not None and -(1 << 62) < number < 1 << 62 else otherwise


def identity(value: Any) -> int:
    """A number that tells things apart, as 64 bits with a sign. The largest unsigned one is NONE, as -1 is."""
    number = _integer(value)
    return NONE if number is None else (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return value if type(value) is int else None
