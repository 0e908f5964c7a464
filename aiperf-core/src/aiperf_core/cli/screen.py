"""The streams that results are printed on: how wide, in colour or not, and with which characters."""

import os
import sys
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_core.render.look import NARROWEST, WIDEST, Look


class Screen:
    """A stream and the look that suits it. In a pipe and under NO_COLOR it is plain ASCII without colours."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self.terminal = stream.isatty()
        plain = not self.terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.look = Look(plain=plain)
        self.console = Console(
            file=stream, color_system=None if plain else "auto", highlight=False, markup=False, emoji=False
        )
        # Below the least width a line breaks at the terminal's edge, which is ugly and loses nothing. Above the most,
        # the eye no longer finds the next line.
        self.console.width = min(max(width or self.console.width, NARROWEST), WIDEST)

    def print(self, *parts: RenderableType) -> None:
        """Print each part from a line of its own."""
        if not self.look.plain:
            self.console.print(*parts, sep="\n")
            return
        with self.console.capture() as captured:
            self.console.print(*parts, sep="\n")
        # rich fills cells with blanks, which in a file are only noise.
        self.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))

    def print_line(self, line: Text) -> None:
        """Print one line, however long: a log has a line an event, and a terminal breaks it by itself."""
        self.console.print(line, soft_wrap=True)

    def write(self, text: str) -> None:
        """Write text as it is, for other programs to read. What the stream cannot spell becomes an escape."""
        stream = self.console.file
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
        stream.flush()


def consoles() -> tuple[Screen, Screen]:
    """Standard output, for results, and standard error, for the course of a run."""
    return Screen(sys.stdout), Screen(sys.stderr)
