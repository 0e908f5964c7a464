"""The text of a server's error, short and safe to show."""

import json
from contextlib import suppress
from typing import Any

from aiperf_core.names import words

SHOWN = 200  # characters
_FIELDS = ("error", "message", "detail", "msg")  # in which servers put the words, the outer ones first


def shortened(text: str, secret: str | None = None) -> str:
    """The first line of an error's words, or of the text where it has none in a known field.

    secret: is not shown, where the server repeats it.
    """
    with suppress(ValueError, RecursionError):
        text = _words(json.loads(text)) or text
    if secret:
        text = text.replace(secret, "***")
    line = next(filter(None, map(words, text[: 20 * SHOWN].splitlines())), "")
    return line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return _words(content[0]) if content else ""
    if isinstance(content, dict):
        return next((text for name in _FIELDS if (text := _words(content.get(name)))), "")
    return ""
