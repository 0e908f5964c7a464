"""Standard streams that do not decide over the work: a run goes on where its output cannot be written.

A closed descriptor becomes `/dev/null`, so that no file of a run gets its number. What follows a failed write is
dropped, and the exit code tells the failure when the work is done.
"""

import errno
import io
import os
import select
import sys
from typing import Any, TextIO

import click

# The exit code of a program that writes to a closed pipe: 128 + SIGPIPE.
PIPE_CLOSED = 141
# EX_IOERR of sysexits.h.
OUTPUT_LOST = 74


class OutputLostError(Exception):
    """Standard output cannot be written, which ends a command that only prints until it is interrupted."""


class _Stream(io.FileIO):
    """A descriptor to write to. The first error is kept, and later output is dropped."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write bytes; return how many."""
        while self.failure is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.failure = error
                break
            if written is not None:
                return written
            select.select((), (self,), ())  # another program has made the terminal or pipe non-blocking
        return memoryview(data).nbytes


def hold_streams() -> None:
    """Replace standard output and error, and open what the caller has closed."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  # as long as the process
    sys.stdout, sys.stderr = _held(sys.stdout, 1), _held(sys.stderr, 2)


def _held(before: TextIO | None, descriptor: int) -> TextIO:
    raw = _Stream(descriptor, "w", closefd=False)
    encoding, errors = (before.encoding, before.errors) if before else ("utf-8", "strict")
    # A name of a file may have bytes that no text has.
    errors = "backslashreplace" if errors == "strict" else errors
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=descriptor == 2 or raw.isatty())


def failure() -> OSError | None:
    """Why standard output could not be written; None if it could."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Stream) else None


def check() -> None:
    """Raise `OutputLostError` if standard output could not be written."""
    if failure():
        raise OutputLostError


def final_code(code: int) -> int:
    """The exit code of a command that ended with `code`: another one tells that the output of a success was lost."""
    lost = failure()
    if lost is None:
        return code
    if lost.errno == errno.EPIPE:  # as in `aiperf list | head -1`, which is no fault
        return code or PIPE_CLOSED
    click.echo(f"aiperf: standard output cannot be written: {lost.strerror}", err=True)
    return code or OUTPUT_LOST
