"""From the content of a bundle to values of columns."""

import json
from typing import Any

from aiperf_core.errors import BundleError
from aiperf_core.names import words

Values = dict[str, Any]


def as_json(value: Any) -> str:
    """A value as the text of a column."""
    return json.dumps(value, separators=(",", ":"), default=list)


def check_storable(where: str, values: Values) -> None:
    """Refuse values that an engine cannot hold: they come from files of an unknown source. Raises BundleError."""
    for name, value in values.items():
        problem = problem_of(value)
        if problem:
            raise BundleError(
                f"'{words(where)}' cannot be stored: {name} {problem}. A run writes no such value; the bundle "
                "was not added."
            )


def problem_of(value: Any) -> str | None:
    """Why no engine can hold a value; None where they can."""
    if isinstance(value, str):
        if "\0" in value:
            return "has a NUL character"
        if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            return "is no valid text"
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return f"is too large: {float(value):.3g}" if abs(value) < 10**300 else "is too large"
    return None
