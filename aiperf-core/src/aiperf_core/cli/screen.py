"""The streams for results: their width, their colours and their characters."""

import os
import sys
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from aiperf_core.cli.color import has_color
from aiperf_core.render.look import NARROWEST, WIDEST, Look

IN_A_PIPE = 80
WHOLE = 10_000  # columns that no line fills


class Screen:
    """A stream and its look. Without colours, as in a pipe, the output is plain ASCII.

    room: the width for tables that are not limited in a pipe; None in a pipe without COLUMNS.
    """

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self.terminal = stream.isatty()
        color = has_color(stream)
        self.look = Look(plain=not color)
        self.console = Console(
            file=stream,
            color_system=None if not color else "auto" if self.terminal else "standard",
            force_terminal=True if color else None,
            no_color=not color,
            highlight=False,
            markup=False,
            emoji=False,
        )
        given = bool(width) or self.terminal or os.environ.get("COLUMNS", "").isdigit()
        # Not the terminal of another stream: the layout in a pipe must be the same everywhere.
        self.console.width = min(max((width or self.console.width) if given else IN_A_PIPE, NARROWEST), WIDEST)
        self.room = self.console.width if given else None

    def print(self, *parts: RenderableType) -> None:
        """Print each part, beginning on a new line."""
        if not self.look.plain:
            self.console.print(*parts, sep="\n")
            return
        with self.console.capture() as captured:
            self.console.print(*parts, sep="\n")
        # rich fills cells with blanks, which a file does not need.
        self.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))

    def print_wide(self, part: RenderableType) -> None:
        """Print lines of any length in a pipe, each of them whole."""
        width = self.console.width
        self.console.width = self.room or WHOLE
        self.print(part)
        self.console.width = width

    def print_line(self, line: Text) -> None:
        """Print a line for an event: on one line in a log, wrapped between words in a terminal."""
        self.console.print(line, soft_wrap=not self.terminal)

    def live(self) -> Live:
        """Start a line that changes on `update(..., refresh=True)` alone, and is cleared on `stop()`."""
        # A thread that redraws would take processor time from what is measured.
        # Not redirected: rich would send standard output to standard error.
        line = Live(
            console=self.console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        line.start()
        return line

    def write(self, text: str) -> None:
        """Write text unchanged, for other programs. Characters that the stream cannot encode become escapes."""
        stream = self.console.file
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
        stream.flush()


def consoles() -> tuple[Screen, Screen]:
    """Standard output, for results, and standard error, for the progress of a run."""
    return Screen(sys.stdout), Screen(sys.stderr)
