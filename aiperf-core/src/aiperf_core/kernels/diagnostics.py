"""Errors of compilers: the first error by file and line, the command, and the place of the whole log."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from aiperf_core.errors import CompileError
from aiperf_core.kernels import cache

# NVRTC: `x.cu(12): error: identifier "b" is undefined`. GCC and Clang: `x.c:12:5: error: ...`.
_ERROR = re.compile(
    r"^(?P<path>[^\n]+?)(?:\((?P<line>\d+)\)|:(?P<at>\d+)(?::\d+)?): "
    r"(?P<kind>(?:catastrophic |fatal )?error)(?: #[\w-]+)?: (?P<text>[^\n]*)",
    re.MULTILINE,
)
_SHOWN = 3


def compile_error(
    path: Path, log: str, *, subject: str, command: Sequence[str], errors: Sequence[str] = ()
) -> CompileError:
    """The error of a source file that does not compile.

    path: the source file.
    log: the whole output of the compiler.
    subject: what was compiled, such as `lesson.cu for sm_90a`.
    command: the compiler and its flags.
    errors: the errors by file and line, where they are not to be found in the log.
    """
    errors = errors or errors_in(path, log)
    lines = [errors[0], *(f"  {error}" for error in errors[1:_SHOWN])]
    if (more := len(errors) - _SHOWN) > 0:
        lines.append(f"  and {more} more line{'' if more == 1 else 's'} of errors")
    lines += [f"  does not compile: {subject}", f"  command: {shlex.join(command)}"]
    kept = cache.keep_log(path.name, "\n".join([shlex.join(command), log]))
    lines += [f"  whole log: {kept}"] if kept else ["  whole log:", *(f"    {line}" for line in log.splitlines())]
    return CompileError("\n".join(lines))


def errors_in(path: Path, log: str) -> list[str]:
    """The errors of a log as `file:line: error: text`; without any, all its lines after the name of the source file."""
    errors = [
        f"{match['path']}:{match['line'] or match['at']}: error: {match['text'].strip()}"
        for match in _ERROR.finditer(log)
    ]
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["the compiler gave no reason"]
    return errors or [f"{path}: {lines[0]}", *lines[1:]]
