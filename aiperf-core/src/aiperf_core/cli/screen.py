"""The streams for results: their width, their colours and their characters."""

import os
import sys
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_core.render.look import NARROWEST, WIDEST, Look


class Screen:
    """A stream and its look. In a pipe and under NO_COLOR the output is plain ASCII without colours."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self.terminal = stream.isatty()
        plain = not self.terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.look = Look(plain=plain)
        self.console = Console(
            file=stream, color_system=None if plain else "auto", highlight=False, markup=False, emoji=False
        )
        # In a narrower terminal, lines break at its edge and lose nothing. Wider lines are hard to read.
        self.console.width = min(max(width or self.console.width, NARROWEST), WIDEST)

    def print(self, *parts: RenderableType) -> None:
        """Print each part, beginning on a new line."""
        if not self.look.plain:
            self.console.print(*parts, sep="\n")
            return
        with self.console.capture() as captured:
            self.console.print(*parts, sep="\n")
        # rich fills cells with blanks, which a file does not need.
        self.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))

    def print_line(self, line: Text) -> None:
        """Print a line of any length. A log has a line for each event; a terminal breaks long lines itself."""
        self.console.print(line, soft_wrap=True)

    def write(self, text: str) -> None:
        """Write text unchanged, for other programs. Characters that the stream cannot encode become escapes."""
        stream = self.console.file
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
        stream.flush()


def consoles() -> tuple[Screen, Screen]:
    """Standard output, for results, and standard error, for the progress of a run."""
    return Screen(sys.stdout), Screen(sys.stderr)
