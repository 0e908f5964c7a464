"""Reduces the log of a compiler to the first errors with their places."""

import re

# NVRTC: `x.cu(12): error: identifier "b" is undefined`. GCC and Clang: `x.c:12:5: error: ...`.
_ERROR = re.compile(
    r"^(?P<path>[^\n]+?)(?:\((?P<line>\d+)\)|:(?P<at>\d+)(?::\d+)?): "
    r"(?P<kind>(?:catastrophic |fatal )?error)(?: #[\w-]+)?: (?P<text>[^\n]*)",
    re.MULTILINE,
)
_SHOWN = 3


def summary(log: str) -> str:
    """The first errors of a log as `path:line: error: text`, or its first lines when none has that form."""
    errors = [
        f"{match['path']}:{match['line'] or match['at']}: error: {match['text'].strip()}"
        for match in _ERROR.finditer(log)
    ]
    if not errors:
        errors = [line.strip() for line in log.splitlines() if line.strip()] or ["the compiler gave no reason"]
    more = len(errors) - _SHOWN
    shown = [f"  {line}" for line in errors[:_SHOWN]]
    if more > 0:
        shown.append(f"  and {more} more line{'' if more == 1 else 's'} of errors")
    return "\n".join(shown)
