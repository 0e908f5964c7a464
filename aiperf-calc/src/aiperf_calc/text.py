"""Text and JSON of files that people edit."""

import json
from pathlib import Path
from typing import Any

from aiperf_core.errors import UsageError
from aiperf_core.names import cause, words
from aiperf_core.text_file import text_of

_MOST_DIGITS = 1000


def read_text(path: Path, wanted: str) -> str:
    """The text of a file in UTF-8, with or without a byte order mark. `wanted` ends the message of UsageError."""
    try:
        return text_of(path, path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {cause(error)}. {wanted}") from None


def read_json(path: Path, wanted: str) -> Any:
    """The value of a JSON file; see `read_text`. Raises UsageError, also for a key that an object has twice."""
    text = read_text(path, wanted)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [key for key, _ in pairs]
            twice = next(key for key in names if names.count(key) > 1)
            raise UsageError(f"'{path}' has the key {words(repr(twice))} twice in one object. Remove the wrong one.")
        return made

    def whole(digits: str) -> int:
        if len(digits) > _MOST_DIGITS:
            raise UsageError(f"'{path}' has a number of {len(digits):,} digits. {wanted}")
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=whole)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not JSON: {error}. {wanted}") from None
